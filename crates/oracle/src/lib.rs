//! Ground truth for tests: exhaustive search, reference relations, random traces
