//! The admin socket: HTTP over a unix socket for health, metrics, reload and runs.
