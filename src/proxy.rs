//! One client connection of any listener: read a head or a ClientHello, authorise, answer.

pub mod forward;
pub mod transparent;
pub mod tunnel;

use std::sync::Arc;

use crate::{egress::Authorizer, listener::Accepted};

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    /// The forward proxy: CONNECT and absolute-form.
    Forward,
    /// Transparent TLS, routed by SNI.
    Https,
    /// Transparent HTTP, routed by Host.
    Http,
}

/// Serves client connections; one value for all of them, which holds the pool of upstream
/// connections for plain HTTP.
pub struct Proxy {
    authorizer: Arc<Authorizer>,
}

impl Proxy {
    /// A proxy that asks `authorizer`.
    pub fn new(authorizer: Arc<Authorizer>) -> Self {
        Self { authorizer }
    }

    /// Serves one connection to its end.
    pub async fn serve(self: Arc<Self>, road: Road, accepted: Accepted) {
        let _ = (road, accepted, &self.authorizer);
        todo!()
    }
}
