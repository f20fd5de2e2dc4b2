"""The components `InferenceService` and `ServingPrerequisites`, typed children and outputs."""
