//! Containers on a real engine: the image, the compose file, the guide in the README and the demo.
//! `make sandbox` brings the engine and the images and runs them; none is skipped there.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod backend;
mod containment;
mod demo;
mod docker;
mod doctor;
mod image;
mod podman;
mod pool;
mod run;
mod sidecar;
mod up;
