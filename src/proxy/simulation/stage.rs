//! One seed: its steps, and what must hold after each of them and in the end.

mod steps;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::{task::yield_now, time};

use self::steps::{DRAIN, RUNS};
use super::{
    Seen,
    chance::Chance,
    client::Client,
    ledger::Ledger,
    origin::{Connection, Totals},
    task::Fates,
    wire::Wire,
    world::{Kind, Terms, World},
};
use crate::{
    audit::{AuditLog, tests::FullDisk},
    drain::Tasks,
    egress::Authorizer,
    proxy::Proxy,
    resolver::Resolver,
};

/// How many connections the proxy takes: less than there are clients.
const CAPACITY: usize = 20;

/// How long the kernel, whose clock does not stand still, may take to pass something on.
const PATIENCE: SignedDuration = SignedDuration::from_secs(20);

pub(super) struct Stage<'a> {
    world: &'a World,
    chance: Chance,
    terms: Terms,
    tasks: Tasks,
    /// Those that wait for the others: a drain, the end of a run.
    waiting: Tasks,
    authorizer: Arc<Authorizer>,
    proxy: Arc<Proxy>,
    fates: Arc<Fates>,
    full_disk: Option<FullDisk>,
    draining: bool,
    drained: Arc<AtomicBool>,
    ledger: Ledger,
    clients: Vec<Client>,
    connections: Vec<Connection>,
    totals: Totals,
}

impl<'a> Stage<'a> {
    pub(super) fn new(world: &'a World, mut chance: Chance) -> Self {
        let terms = Terms::WIDE;
        let log = AuditLog::open(&world.audit(), 600).unwrap();
        let tasks = Tasks::new();
        let (holding, stopping) = (Arc::clone(&log), tasks.stopping().clone());
        tasks.spawn(async move { holding.hold_closes(&stopping).await });
        let upstream = Arc::new(world.upstream(chance.split()));
        let resolver = Resolver::new(upstream, Duration::from_secs(5));
        let config = world.config(&terms);
        let authorizer = Authorizer::new(&config, CAPACITY, resolver, log, tasks.clone());
        let authorizer = Arc::new(authorizer);
        let mut stage = Self {
            world,
            chance,
            terms,
            waiting: Tasks::new(),
            proxy: Proxy::new(Arc::clone(&authorizer), tasks.clone()),
            tasks,
            authorizer,
            fates: Arc::default(),
            full_disk: None,
            draining: false,
            drained: Arc::default(),
            ledger: Ledger::of(&world.log()),
            clients: Vec::new(),
            connections: Vec::new(),
            totals: Totals::default(),
        };
        (0..RUNS).for_each(|_| stage.register());
        stage
    }

    pub(super) async fn step(&mut self) {
        self.something_happens().await;
        let turns = self.chance.below(8);
        self.turns(turns).await;
        self.check();
    }

    /// Lets everything that is ready run, so many times, and looks at what came of it.
    async fn turns(&mut self, count: usize) {
        for _ in 0..count {
            yield_now().await;
            self.accept();
            for connection in &mut self.connections {
                connection.look(&mut self.totals);
            }
            self.clients.iter_mut().for_each(Client::look);
        }
    }

    /// Lets everything run until something is so.
    async fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let begun = Timestamp::now();
        while !is_so(self) {
            let waited = Timestamp::now().duration_since(begun);
            assert!(waited < PATIENCE, "{what}");
            self.turns(1).await;
        }
    }

    fn accept(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        assert!(
            self.world.trap.poll_accept(&mut context).is_pending(),
            "unvetted"
        );
        for origin in &self.world.origins {
            while let Poll::Ready(accepted) = origin.poll_accept(&mut context) {
                let (stream, _) = accepted.unwrap();
                self.ledger.read(self.world, &self.terms);
                self.ledger.dialled(stream.local_addr().unwrap());
                self.connections
                    .push(Connection::new(stream, &mut self.chance));
            }
        }
    }

    /// What holds at any time.
    fn check(&mut self) {
        // With it every close that is held is written.
        self.authorizer.audit().head();
        self.ledger.read(self.world, &self.terms);
        let (open, recorded) = (self.authorizer.open_exchanges(), self.ledger.open());
        if self.full_disk.is_some() {
            // Closes wait in memory.
            assert!(open <= recorded, "{open} open, {recorded} recorded as open");
        } else {
            assert_eq!(open, recorded, "open, and recorded as open");
        }
        let alive = self.fates.alive.load(Ordering::Relaxed);
        assert!(self.authorizer.open_connections() <= alive);
        assert!(
            !self.fates.panicked.load(Ordering::Relaxed),
            "a task panicked"
        );
    }

    pub(super) async fn end(mut self, seen: &mut Seen) {
        if self.full_disk.is_some() {
            self.turn_the_disk();
        }
        self.drain();
        // Whoever came behind the drain is turned away by himself.
        let is_drained = |stage: &mut Self| {
            stage.drained.load(Ordering::Relaxed) && stage.fates.alive.load(Ordering::Relaxed) == 0
        };
        for _ in 0..=DRAIN.as_secs() {
            self.turns(4).await;
            if is_drained(&mut self) {
                break;
            }
            time::advance(Duration::from_secs(1)).await;
        }
        self.until("the drain does not end", is_drained).await;
        self.waiting.drain(Duration::ZERO).await;
        self.check();
        assert_eq!(self.ledger.open(), 0);
        assert_eq!(self.authorizer.open_connections(), 0);
        assert_eq!(Arc::strong_count(&self.proxy), 1);
        assert_eq!(Arc::strong_count(&self.authorizer), 2);
        self.everything_is_closed().await;
        self.bytes_were_counted();
        std::fs::remove_file(self.world.log()).unwrap();
        self.ledger.count(seen);
    }

    async fn everything_is_closed(&mut self) {
        let connections = self.connections.iter_mut().map(|origin| &mut origin.wire);
        let clients = self.clients.iter_mut().map(|client| &mut client.wire);
        clients.chain(connections).for_each(Wire::listen);
        let is_closed = |stage: &mut Self| {
            let mut connections = stage.connections.iter().map(|origin| &origin.wire);
            let mut clients = stage.clients.iter().map(|client| &client.wire);
            clients.all(Wire::is_closed) && connections.all(Wire::is_closed)
        };
        self.until("a connection is still open", is_closed).await;
    }

    /// What one side got was counted, and nothing was counted that the other did not send.
    fn bytes_were_counted(&self) {
        for client in &self.clients {
            let (up, down) = self.ledger.bytes(&client.host);
            let (got, sent) = self.totals.of(&client.host);
            assert!(
                got <= up && down <= sent,
                "{got} {up}, {down} {sent}: {}",
                client.host
            );
            if client.kind == Kind::Tunnel {
                let (all, none) = (client.sent, client.got);
                assert!(
                    up <= all && none <= down,
                    "{up} {all}, {none} {down}: {}",
                    client.host
                );
            }
        }
    }
}
