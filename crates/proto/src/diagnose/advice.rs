//! What can be done about a verdict: derived from what this run met with, and from nothing else.
