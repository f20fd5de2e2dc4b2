"""Kthena: ModelServing, with the ModelServers and ModelRoutes that lead to it."""
