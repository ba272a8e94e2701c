//! The load: clients that repeat one kind of work, and what was counted of it.

use std::{
    error::Error,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    origin::{BODY, CHUNK},
    process::{processor_time, resident},
    tunnel::{self, Road, Stream},
};

/// How long a client waits after a failure, so that a proxy that refuses is not what is measured.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    work: Work,
    #[command(flatten)]
    road: tunnel::Arguments,
    /// How many clients work at the same time; of `idle`, how many tunnels are open.
    #[arg(long, default_value_t = 32)]
    clients: u32,
    /// How long is measured, after a warm-up of a fifth of it.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How many tunnels are open and silent meanwhile; what they weigh needs `--pid`.
    #[arg(long, default_value_t = 0)]
    held: u32,
    /// The process of the proxy, for its processor time and memory.
    #[arg(long)]
    pid: Option<u32>,
}

#[derive(Clone, Copy, Eq, PartialEq, clap::ValueEnum)]
enum Work {
    /// Open a tunnel, have one byte echoed, close it.
    Connect,
    /// Have 64 bytes echoed, again and again, on a tunnel that stays open.
    Pingpong,
    /// Download through a tunnel.
    Bulk,
    /// Upload through a tunnel.
    Upload,
    /// GET a small answer on a connection that stays open.
    Http,
    /// Hold tunnels that are silent.
    Idle,
}

/// What all clients did together.
#[derive(Default)]
struct Counts {
    done: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    first_error: Mutex<Option<String>>,
    stop: AtomicBool,
}

impl Counts {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn failed(&self, error: &io::Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut first) = self.first_error.lock() {
            first.get_or_insert_with(|| error.to_string());
        }
    }

    fn so_far(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        )
    }
}

/// One client: what it counts for all, and its own latencies in microseconds.
struct Client {
    road: Arc<Road>,
    counts: Arc<Counts>,
    latency: Histogram<u64>,
}

impl Client {
    fn did_one(&mut self, since: Instant) {
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(micros);
        self.counts.done.fetch_add(1, Ordering::Relaxed);
    }

    fn moved(&self, bytes: usize) {
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    async fn work(mut self, work: Work) -> Histogram<u64> {
        while self.counts.goes_on() {
            let outcome = match work {
                Work::Connect => self.connect().await,
                Work::Pingpong => self.pingpong().await,
                Work::Bulk => self.bulk().await,
                Work::Upload => self.upload().await,
                Work::Http => self.http().await,
                Work::Idle => return self.latency,
            };
            if let Err(error) = outcome
                && self.counts.goes_on()
            {
                self.counts.failed(&error);
                sleep(PAUSE).await;
            }
        }
        self.latency
    }

    async fn connect(&mut self) -> io::Result<()> {
        let since = Instant::now();
        let mut tunnel = self.road.open().await?;
        tunnel.write_all(b"E").await?;
        tunnel.flush().await?;
        tunnel.read_exact(&mut [0]).await?;
        self.did_one(since);
        Ok(())
    }

    async fn pingpong(&mut self) -> io::Result<()> {
        let mut tunnel = self.road.open().await?;
        let mut back = [0; 64];
        while self.counts.goes_on() {
            let since = Instant::now();
            tunnel.write_all(&[b'E'; 64]).await?;
            tunnel.flush().await?;
            tunnel.read_exact(&mut back).await?;
            self.did_one(since);
        }
        Ok(())
    }

    async fn bulk(&mut self) -> io::Result<()> {
        let mut tunnel = self.road.open().await?;
        tunnel.write_all(b"S").await?;
        tunnel.flush().await?;
        let mut buffer = vec![0; 4 * CHUNK];
        while self.counts.goes_on() {
            let read = tunnel.read(&mut buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.moved(read);
        }
        Ok(())
    }

    async fn upload(&mut self) -> io::Result<()> {
        let mut tunnel = self.road.open().await?;
        let buffer = vec![b'D'; CHUNK];
        while self.counts.goes_on() {
            tunnel.write_all(&buffer).await?;
            self.moved(buffer.len());
        }
        Ok(())
    }

    async fn http(&mut self) -> io::Result<()> {
        let mut stream = self.road.connect().await?;
        let request = match &self.road.target {
            Some(target) => format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n"),
            None => "GET / HTTP/1.1\r\nHost: origin\r\n\r\n".to_owned(),
        };
        let mut answer = Vec::with_capacity(4096);
        let mut answered = false;
        while self.counts.goes_on() {
            let since = Instant::now();
            stream.write_all(request.as_bytes()).await?;
            answer.clear();
            while !answer.ends_with(BODY) {
                if stream.read_buf(&mut answer).await? > 0 {
                    continue;
                }
                // A proxy may close after an answer: then the client comes again.
                if answered && answer.is_empty() {
                    return Ok(());
                }
                let text = String::from_utf8_lossy(&answer).into_owned();
                return Err(io::Error::other(format!("closed after {text:?}")));
            }
            answered = true;
            self.did_one(since);
        }
        Ok(())
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let road = Arc::new(Road::new(arguments.road)?);
    let seconds = Duration::try_from_secs_f64(arguments.seconds)?;
    let pid = arguments.pid;
    if arguments.work == Work::Idle {
        let pid = pid.ok_or("idle needs --pid")?;
        return idle(&road, arguments.clients, seconds, pid).await;
    }
    let at_rest = pid.map(resident);
    let held = hold(&road, arguments.held).await?;
    let weight = pid
        .zip(at_rest)
        .map(|(pid, at_rest)| resident(pid).saturating_sub(at_rest));
    let counts = Arc::new(Counts::default());
    let mut clients = JoinSet::new();
    for _ in 0..arguments.clients {
        let client = Client {
            road: Arc::clone(&road),
            counts: Arc::clone(&counts),
            latency: latencies()?,
        };
        clients.spawn(client.work(arguments.work));
    }
    sleep(seconds / 5).await;
    let (before, used, since) = (counts.so_far(), pid.map(processor_time), Instant::now());
    sleep(seconds).await;
    let (after, elapsed) = (counts.so_far(), since.elapsed().as_secs_f64());
    let used = pid
        .zip(used)
        .map(|(pid, used)| processor_time(pid).saturating_sub(used));
    counts.stop.store(true, Ordering::Relaxed);

    let (done, bytes) = (after.0 - before.0, after.1 - before.1);
    let errors = counts.errors.load(Ordering::Relaxed);
    print!("seconds={elapsed:.3} done={done} bytes={bytes} errors={errors}");
    if let Some(used) = used {
        print!(" cpu_s={:.2}", used.as_secs_f64());
    }
    if let Some(weight) = weight.filter(|_| !held.is_empty()) {
        print!(" held={} held_bytes={weight}", held.len());
    }
    if done > 0 {
        let latency = gathered(clients).await?;
        for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99)] {
            print!(" {name}={}", latency.value_at_quantile(quantile));
        }
    }
    println!();
    if let Some(error) = counts
        .first_error
        .lock()
        .ok()
        .and_then(|mut first| first.take())
    {
        eprintln!("proxybench: the first of {errors} errors: {error}");
    }
    Ok(())
}

/// Microseconds up to a minute, to three digits.
fn latencies() -> Result<Histogram<u64>, Box<dyn Error>> {
    Ok(Histogram::new_with_max(60_000_000, 3)?)
}

/// The latencies of all clients, of those at least that notice the end within seconds.
async fn gathered(mut clients: JoinSet<Histogram<u64>>) -> Result<Histogram<u64>, Box<dyn Error>> {
    let mut whole = latencies()?;
    let all = async {
        while let Some(latency) = clients.join_next().await {
            whole.add(latency?)?;
        }
        Ok::<(), Box<dyn Error>>(())
    };
    if let Ok(outcome) = timeout(Duration::from_secs(3), all).await {
        outcome?;
    }
    Ok(whole)
}

/// Opens tunnels, and uses each once as a real one is.
async fn hold(road: &Road, tunnels: u32) -> io::Result<Vec<Box<dyn Stream>>> {
    let mut open = Vec::new();
    for _ in 0..tunnels {
        let mut tunnel = road.open().await?;
        tunnel.write_all(b"E").await?;
        tunnel.flush().await?;
        tunnel.read_exact(&mut [0]).await?;
        open.push(tunnel);
    }
    Ok(open)
}

/// Sees what tunnels weigh when nothing flows.
async fn idle(road: &Road, tunnels: u32, settle: Duration, pid: u32) -> Result<(), Box<dyn Error>> {
    let before = resident(pid);
    let open = hold(road, tunnels).await?;
    sleep(settle).await;
    let after = resident(pid);
    drop(open);
    println!("tunnels={tunnels} errors=0 rest_bytes={before} held_bytes={after}");
    Ok(())
}
