//! Bytes through the whole proxy, by every road, against origins that see what it does: nothing is
//! dialled and nothing is sent without a record that allows it, written before; what is recorded
//! and what is counted is what happened; and when both sides are gone, everything is closed.
//!
//! The clock stands still unless the input moves it, so an input does the same each time.

#![no_main]

mod origin;
mod records;
mod requests;
mod script;
mod world;

use std::{
    cell::OnceCell,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use eclusa::{audit::AuditLog, drain::Tasks, egress::Authorizer, proxy::Proxy, resolver::Resolver};
use libfuzzer_sys::fuzz_target;
use tokio::{io::AsyncWriteExt, net::TcpStream, runtime::Runtime, task::yield_now, time};

use self::{
    origin::Connections,
    records::Records,
    script::{Script, Step},
    world::{MAX_UPLOAD, World},
};

/// How often everything that is ready runs after a step: a request crosses the proxy in fewer.
const TURNS: usize = 8;

/// How long the kernel, whose clock does not stand still, may take to pass something on.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    static STAGE: OnceCell<(Runtime, World)> = const { OnceCell::new() };
}

fuzz_target!(|input: &[u8]| {
    STAGE.with(|stage| {
        let (runtime, world) = stage.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().start_paused(true).build().unwrap();
            let world = runtime.block_on(async { World::new() });
            (runtime, world)
        });
        runtime.block_on(play(world, &Script::read(input)));
    });
});

async fn play(world: &World, script: &Script<'_>) {
    let mut play = Play::begin(world, script);
    // The runtime hears that the client can write.
    play.turns(1).await;
    for step in &script.steps {
        play.step(*step).await;
        play.turns(TURNS).await;
    }
    play.end().await;
}

/// One input against a proxy of its own.
struct Play<'a> {
    world: &'a World,
    tasks: Tasks,
    authorizer: Arc<Authorizer>,
    proxy: Arc<Proxy>,
    client: Client,
    connections: Connections,
    records: Records,
}

/// The client's end; none once it was reset.
struct Client {
    stream: Option<TcpStream>,
    saw_the_end: bool,
}

impl<'a> Play<'a> {
    fn begin(world: &'a World, script: &Script<'_>) -> Self {
        let log = AuditLog::open(&world.audit(), 600).unwrap();
        let tasks = Tasks::new();
        let resolver = Resolver::new(Arc::new(world.names), Duration::from_secs(1));
        let authorizer = Authorizer::new(&world.config, 16, resolver, log, tasks.clone());
        let authorizer = Arc::new(authorizer);
        let proxy = Proxy::new(Arc::clone(&authorizer), tasks.clone());
        let (client, accepted) = world.client();
        tasks.spawn(Arc::clone(&proxy).serve(script.road, accepted, ()));
        Self {
            world,
            tasks,
            authorizer,
            proxy,
            client: Client {
                stream: Some(client),
                saw_the_end: false,
            },
            connections: Connections::default(),
            records: Records::of(&world.log()),
        }
    }

    async fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Client(bytes) => self.client.send(bytes),
            Step::Origin(bytes) => self.connections.send(bytes),
            Step::ClientEnds => self.client.end().await,
            Step::ClientResets => self.client.stream = None,
            Step::OriginEnds => self.connections.end_last(),
            Step::OriginResets => self.connections.reset_last(),
            Step::Wait(duration) => time::advance(duration).await,
            Step::Forbid => {
                self.records.read();
                self.records.forbidden = true;
                self.authorizer.reload(&self.world.strict);
            }
            Step::Drain => self.tasks.stopping().cancel(),
        }
    }

    /// Lets everything that is ready run, so many times, and looks at what came of it.
    async fn turns(&mut self, most: usize) {
        for _ in 0..most {
            yield_now().await;
            self.connections
                .look(&self.world.origins, &mut self.records);
            self.client.look();
        }
    }

    /// Lets everything that is ready run until something is so.
    async fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            self.turns(1).await;
        }
    }

    async fn end(mut self) {
        self.records.read();
        if self.records.is_refused() {
            self.until("refused, and still open", |play| play.client.is_closed())
                .await;
        }
        // Neither side says anything more, so nothing may wait for a clock; but for the look-up
        // that is slow.
        self.client.end().await;
        time::advance(world::SLOW).await;
        self.until("a connection outlives its two sides", |play| {
            play.connections.end_all();
            play.authorizer.open_connections() == 0
        })
        .await;
        assert_eq!(self.authorizer.open_exchanges(), 0);
        self.tasks.drain(Duration::ZERO).await;
        self.until("a connection to an origin is still open", |play| {
            play.connections.are_closed()
        })
        .await;
        self.records.read();
        assert!(self.records.is_paired());
        assert!(self.records.counted_up_in_all() <= MAX_UPLOAD);
        self.connections.check_counts(&self.records);
        let alone = Arc::strong_count(&self.proxy) == 1;
        assert!(alone, "something outlives the drain");
        // The next input begins a log of its own.
        fs::remove_file(self.world.log()).unwrap();
    }
}

impl Client {
    fn is_closed(&self) -> bool {
        self.saw_the_end || self.stream.is_none()
    }

    fn send(&self, bytes: &[u8]) {
        if let Some(stream) = &self.stream {
            // It may have been closed meanwhile.
            let _ = stream.try_write(bytes);
        }
    }

    async fn end(&mut self) {
        if let Some(stream) = &mut self.stream {
            let _ = stream.shutdown().await;
        }
    }

    fn look(&mut self) {
        let mut room = [0; 4096];
        while let Some(stream) = self.stream.as_ref().filter(|_| !self.saw_the_end) {
            match stream.try_read(&mut room) {
                Ok(0) => self.saw_the_end = true,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => self.saw_the_end = true,
            }
        }
    }
}
