"""The policy: base model, adapter, reference, log-probabilities of completions, and the update."""
