//! Metrics, tables and plots over traces.
