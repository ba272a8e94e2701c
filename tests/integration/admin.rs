//! The admin socket: health, runs, reload.
