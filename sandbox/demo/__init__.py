"""The story that ``make run`` tells: an InferenceService is pinned, drifts, rolls forward and back."""
