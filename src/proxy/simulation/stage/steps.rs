//! What may happen at one step.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time;

use super::Stage;
use crate::{
    audit::tests::FullDisk,
    egress::Registration,
    proxy::{
        Road,
        simulation::{
            client::Client,
            task::Task,
            wire::Wire,
            world::{Kind, Terms},
        },
    },
    record::RunId,
};

/// The most clients of one seed.
const CLIENTS: usize = 24;

/// How many addresses the sandboxes of runs have.
pub(super) const RUNS: usize = 3;

/// As the drain of the app has it.
pub(super) const DRAIN: Duration = Duration::from_secs(30);

impl Stage<'_> {
    pub(super) async fn something_happens(&mut self) {
        match self.chance.below(1000) {
            0..120 => self.connect(),
            120..450 => self.client_speaks(),
            450..760 => self.origin_speaks(),
            760..810 => self.someone_stops_reading(),
            810..840 => self.someone_ends().await,
            840..860 => self.someone_closes(),
            860..915 => self.time_passes().await,
            915..930 => self.reload().await,
            930..960 => self.register(),
            960..970 => self.remove_run(),
            970..980 => {
                self.authorizer.expire_runs();
                self.authorizer.audit().flush();
            }
            980..999 => self.turn_the_disk(),
            _ if self.chance.one_in(3) => self.drain(),
            _ => {}
        }
    }

    fn connect(&mut self) {
        if open(&self.clients, |client| &client.wire).len() >= CLIENTS {
            return;
        }
        let last = u8::try_from(self.chance.below(RUNS)).unwrap();
        let peer = if self.chance.one_in(2) {
            source(last)
        } else {
            IpAddr::V4(Ipv4Addr::new(10, 9, 0, last))
        };
        let kind = *self.chance.pick(&[Kind::Tunnel, Kind::Plain]);
        let (stream, accepted) = self.world.client(peer);
        let id = u64::try_from(self.clients.len()).unwrap();
        let mut client = Client::new(id, kind, stream);
        client.speak(self.world, &mut self.chance);
        self.clients.push(client);
        let serving = Arc::clone(&self.proxy).serve(Road::Forward, accepted, ());
        let polls = if self.chance.one_in(6) {
            self.chance.below(30)
        } else {
            usize::MAX
        };
        self.tasks.spawn(Task::new(serving, polls, &self.fates));
    }

    fn client_speaks(&mut self) {
        let open = open(&self.clients, |client| &client.wire);
        if !open.is_empty() {
            let client = &mut self.clients[*self.chance.pick(&open)];
            client.speak(self.world, &mut self.chance);
        }
    }

    fn origin_speaks(&mut self) {
        let open = open(&self.connections, |origin| &origin.wire);
        if !open.is_empty() {
            let connection = &mut self.connections[*self.chance.pick(&open)];
            connection.speak(&mut self.chance, &mut self.totals);
        }
    }

    fn someone(&mut self) -> Option<&mut Wire> {
        if self.chance.one_in(2) {
            let open = open(&self.clients, |client| &client.wire);
            (!open.is_empty()).then(|| &mut self.clients[*self.chance.pick(&open)].wire)
        } else {
            let open = open(&self.connections, |origin| &origin.wire);
            (!open.is_empty()).then(|| &mut self.connections[*self.chance.pick(&open)].wire)
        }
    }

    fn someone_stops_reading(&mut self) {
        self.someone().map(Wire::toggle).unwrap_or_default();
    }

    async fn someone_ends(&mut self) {
        if let Some(wire) = self.someone() {
            wire.end().await;
        }
    }

    fn someone_closes(&mut self) {
        let by_reset = self.chance.one_in(2);
        if let Some(wire) = self.someone() {
            wire.close(by_reset);
        }
    }

    async fn time_passes(&mut self) {
        let millis = if self.chance.one_in(8) {
            *self.chance.pick(&[5_000, 20_000, 70_000, 400_000])
        } else {
            *self.chance.pick(&[1, 10, 300, 1_000])
        };
        time::advance(Duration::from_millis(millis)).await;
    }

    /// What is no longer allowed is closed, without any time passing.
    async fn reload(&mut self) {
        self.ledger.read(self.world, &self.terms);
        self.terms = Terms::any(&mut self.chance);
        self.authorizer.reload(&self.world.config(&self.terms));
        if self.full_disk.is_none() {
            let none_is_left = |stage: &mut Self| {
                stage.check();
                stage.ledger.left_open(stage.world, &stage.terms) == 0
            };
            let what = "what is no longer allowed is open";
            self.until(what, none_is_left).await;
        }
    }

    pub(super) fn register(&mut self) {
        let last = self.chance.below(RUNS);
        let seconds = *self.chance.pick(&[5, 30, 600]);
        // It may be ending, or the disk full.
        let registered = self.authorizer.register(Registration {
            run: run(last),
            sources: vec![source(u8::try_from(last).unwrap())],
            listener: None,
            profile: Some("default".into()),
            allow: Vec::new(),
            expires_in: Duration::from_secs(seconds),
        });
        registered.unwrap_or_default();
    }

    fn remove_run(&mut self) {
        let id = run(self.chance.below(RUNS));
        let authorizer = Arc::clone(&self.authorizer);
        self.waiting.spawn(async move {
            authorizer.remove_run(&id).await;
        });
    }

    pub(super) fn turn_the_disk(&mut self) {
        let log = self.authorizer.audit();
        match self.full_disk.take() {
            Some(full) => {
                drop(full);
                log.flush();
            }
            None if self.chance.one_in(4) => self.full_disk = Some(FullDisk::under(log)),
            None => {}
        }
    }

    pub(super) fn drain(&mut self) {
        if self.draining {
            return;
        }
        self.draining = true;
        let (tasks, drained) = (self.tasks.clone(), Arc::clone(&self.drained));
        self.waiting.spawn(async move {
            tasks.drain(DRAIN).await;
            drained.store(true, Ordering::Relaxed);
        });
    }
}

/// Which of them are open.
fn open<T>(all: &[T], wire: impl Fn(&T) -> &Wire) -> Vec<usize> {
    (0..all.len())
        .filter(|at| !wire(&all[*at]).is_closed())
        .collect()
}

fn run(last: usize) -> RunId {
    RunId::parse(&format!("run-{last}")).unwrap()
}

fn source(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 8, 1, last))
}
