//! From an accepted connection to the worker that serves it.

use std::sync::Arc;

use super::listeners::Roads;
use crate::{
    drain::Tasks,
    listener::Accepted,
    proxy::{Proxy, Road},
    workers::{Place, Worker, Workers},
};

/// Accepts on every worker what is listened on there, and serves it there or where there is more
/// room.
pub(super) fn accept(roads: Vec<Roads>, proxy: &Arc<Proxy>, tasks: &Tasks, workers: &Workers) {
    for (own, roads) in workers.all().iter().zip(roads) {
        let _inside = own.runtime().enter();
        for (road, listener) in roads {
            let serving = Serving {
                road,
                proxy: Arc::clone(proxy),
                tasks: tasks.clone(),
                own: Arc::clone(own),
                all: Arc::clone(workers.all()),
            };
            let accepting = listener.run(tasks.clone(), move |accepted| serving.serve(accepted));
            tasks.spawn(accepting);
        }
    }
}

/// What one worker accepts of one road.
struct Serving {
    road: Road,
    proxy: Arc<Proxy>,
    tasks: Tasks,
    own: Arc<Worker>,
    all: Arc<[Arc<Worker>]>,
}

impl Serving {
    fn serve(&self, mut accepted: Accepted) {
        let place = Place::find(&self.own, &self.all);
        let worker = Arc::clone(place.worker());
        let elsewhere = !Arc::ptr_eq(&worker, &self.own);
        if elsewhere {
            accepted = match accepted.moved_to(&worker) {
                Ok(moved) => moved,
                Err(error) => {
                    tracing::warn!(%error, "an accepted connection is lost");
                    return;
                }
            };
        }
        let _inside = elsewhere.then(|| worker.runtime().enter());
        // Spawned as it is: within another future it would take its room twice.
        let proxy = Arc::clone(&self.proxy);
        self.tasks.spawn(proxy.serve(self.road, accepted, place));
    }
}
