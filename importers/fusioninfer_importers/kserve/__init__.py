"""KServe: LLMInferenceService, with the LLMInferenceServiceConfigs that it is based on."""
