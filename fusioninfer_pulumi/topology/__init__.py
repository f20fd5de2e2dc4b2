"""How many pods a service has, and which are scheduled together: LeaderWorkerSets and PodGroups."""
