"""How requests find a pod: the endpoint picker, its pool, the route and the Gateway."""
