"""One step: from microbatches over summed gradients to one update that all commit."""
