"""The timeline of a run: a file in Chrome's trace event format, for Perfetto."""
