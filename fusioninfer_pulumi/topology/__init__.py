"""A service's LeaderWorkerSets and PodGroups, and the capacity model."""
