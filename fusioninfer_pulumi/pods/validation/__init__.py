"""Rules of the API server about pods that its schemas cannot say."""
