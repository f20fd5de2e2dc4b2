"""LeaderWorkerSets and PodGroups of a service, and the capacity model."""
