use std::{collections::VecDeque, future::Future, pin::Pin, sync::Mutex};

use tokio::{task::JoinSet, time::Instant};

use super::*;
use crate::destination::{Scheme, guard::InterfaceAddress};

const BUDGET: Duration = Duration::from_secs(5);
const PUBLIC: &str = "1.2.3.4";
const METADATA: &str = "169.254.169.254";

/// An upstream that gives its answers in turn, the last one for ever, each after its delay.
#[derive(Debug)]
struct Scripted {
    answers: Mutex<VecDeque<(Duration, Result<Answer, LookupError>)>>,
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    fn new(
        answers: impl IntoIterator<Item = (u64, Result<Answer, LookupError>)>,
    ) -> (Arc<Self>, Arc<Resolver>) {
        let scripted = Arc::new(Self {
            answers: answers
                .into_iter()
                .map(|(ms, answer)| (Duration::from_millis(ms), answer))
                .collect::<VecDeque<_>>()
                .into(),
            asked: Mutex::default(),
        });
        let lookup: Arc<dyn Lookup> = Arc::<Self>::clone(&scripted);
        (scripted, Arc::new(Resolver::new(lookup, BUDGET)))
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Lookup for Scripted {
    fn lookup<'a>(
        &'a self,
        name: &'a Name,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>> {
        self.asked.lock().unwrap().push(name.to_string());
        let (delay, answer) = {
            let mut answers = self.answers.lock().unwrap();
            let next = answers.pop_front().unwrap();
            if answers.is_empty() {
                answers.push_back(next.clone());
            }
            next
        };
        Box::pin(async move {
            time::sleep(delay).await;
            answer
        })
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands in tables beside failures"
)]
fn addresses(list: &[&str], ttl: u64) -> Result<Answer, LookupError> {
    Ok(Answer {
        addresses: list
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
        ttl: Duration::from_secs(ttl),
    })
}

fn failed() -> Result<Answer, LookupError> {
    Err(LookupError::Failed(
        "the resolver answered: Server Failure".to_owned(),
    ))
}

fn destination(authority: &str) -> Destination {
    Destination::parse_authority(Scheme::Https, authority).unwrap()
}

async fn resolve(resolver: &Resolver, authority: &str) -> Result<Resolved, ResolveError> {
    resolver
        .resolve(
            &destination(authority),
            &AddressGuard::default(),
            &Surroundings::default(),
            &[],
        )
        .await
}

#[tokio::test(start_paused = true)]
async fn an_answer_becomes_vetted_addresses_with_the_port() {
    let (_, resolver) = Scripted::new([(0, addresses(&[PUBLIC, "2606:4700::1"], 60))]);
    let resolved = resolve(&resolver, "allowed.example:8443").await.unwrap();
    assert_eq!(
        resolved.vetted.as_slice(),
        [
            "1.2.3.4:8443".parse().unwrap(),
            "[2606:4700::1]:8443".parse().unwrap()
        ]
    );
    assert_eq!(resolved.answer.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_forbidden_address_refuses_the_whole_answer() {
    for answer in [&[PUBLIC, METADATA][..], &["::1", PUBLIC], &["10.0.0.5"]] {
        let (_, resolver) = Scripted::new([(0, addresses(answer, 60))]);
        let error = resolve(&resolver, "allowed.example:443").await.unwrap_err();
        let ResolveError::Blocked { answer: whole, .. } = error else {
            panic!("{answer:?}: {error}");
        };
        assert_eq!(whole.len(), answer.len(), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ip_literal_is_vetted_without_a_look_up() {
    let (scripted, resolver) = Scripted::new([(0, failed())]);
    let resolved = resolve(&resolver, "1.2.3.4:443").await.unwrap();
    assert_eq!(resolved.vetted.as_slice(), ["1.2.3.4:443".parse().unwrap()]);
    for authority in ["169.254.169.254:80", "127.0.0.1:80", "[::ffff:10.0.0.1]:80"] {
        let error = resolve(&resolver, authority).await.unwrap_err();
        assert!(
            matches!(error, ResolveError::Blocked { .. }),
            "{authority}: {error}"
        );
    }
    assert_eq!(scripted.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn vetting_is_never_kept() {
    let (scripted, resolver) = Scripted::new([(0, addresses(&[PUBLIC], 300))]);
    resolve(&resolver, "allowed.example:443").await.unwrap();
    let surroundings = Surroundings {
        interfaces: Arc::from([InterfaceAddress {
            index: 9,
            network: "1.2.3.4/24".parse().unwrap(),
            sandbox_side: true,
        }]),
        ..Surroundings::default()
    };
    let destination = destination("allowed.example:443");
    let again = resolver
        .resolve(&destination, &AddressGuard::default(), &surroundings, &[])
        .await;
    assert!(
        matches!(again, Err(ResolveError::Blocked { .. })),
        "{again:?}"
    );
    assert_eq!(scripted.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_its_ttl_but_not_beyond_five_minutes() {
    // A TTL of zero serves the connection that asked and no other.
    for (ttl, kept) in [(0, 0), (1, 1), (60, 60), (300, 300), (86_400, 300)] {
        let (scripted, resolver) = Scripted::new([
            (0, addresses(&[PUBLIC], ttl)),
            (0, addresses(&[METADATA], ttl)),
        ]);
        resolve(&resolver, "allowed.example:443").await.unwrap();
        if kept > 0 {
            time::advance(Duration::from_millis(kept * 1000 - 1)).await;
            resolve(&resolver, "allowed.example:443").await.unwrap();
            assert_eq!(scripted.asked(), 1, "{ttl}");
            time::advance(Duration::from_millis(1)).await;
        }
        let second = resolve(&resolver, "allowed.example:443").await;
        assert!(matches!(second, Err(ResolveError::Blocked { .. })), "{ttl}");
        assert_eq!(scripted.asked(), 2, "{ttl}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_kept_shortly() {
    for (failure, seconds) in [
        (Err(LookupError::NoAddress), 5),
        (addresses(&[], 60), 5),
        (failed(), 1),
        (Err(LookupError::Timeout), 1),
    ] {
        let (scripted, resolver) =
            Scripted::new([(0, failure.clone()), (0, addresses(&[PUBLIC], 60))]);
        for _ in 0..100 {
            assert!(resolve(&resolver, "allowed.example:443").await.is_err());
        }
        assert_eq!(scripted.asked(), 1, "{failure:?}");
        time::advance(Duration::from_secs(seconds)).await;
        assert!(
            resolve(&resolver, "allowed.example:443").await.is_ok(),
            "{failure:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn errors_say_what_happened_and_name_no_server() {
    let many: Vec<String> = (0..=MAX_ADDRESSES)
        .map(|n| format!("1.2.{}.{}", n / 256, n % 256))
        .collect();
    let many: Vec<&str> = many.iter().map(|address| &**address).collect();
    let failed_with = |why: &str| ResolveError::Failed {
        name: "allowed.example".to_owned(),
        why: why.to_owned(),
    };
    for (answer, expected) in [
        (
            Err(LookupError::NoAddress),
            failed_with("the name has no address"),
        ),
        (addresses(&[], 60), failed_with("the name has no address")),
        (
            failed(),
            failed_with("the resolver answered: Server Failure"),
        ),
        (
            addresses(&many, 60),
            failed_with("the answer has more than 256 addresses"),
        ),
        (Err(LookupError::Timeout), ResolveError::Timeout(BUDGET)),
    ] {
        let (_, resolver) = Scripted::new([(0, answer)]);
        assert_eq!(
            resolve(&resolver, "allowed.example:443").await,
            Err(expected)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_look_up_has_one_budget() {
    let (_, resolver) = Scripted::new([(60_000, addresses(&[PUBLIC], 60))]);
    let begun = Instant::now();
    let error = resolve(&resolver, "allowed.example:443").await.unwrap_err();
    assert_eq!(error, ResolveError::Timeout(BUDGET));
    assert_eq!(begun.elapsed(), BUDGET);
}

#[tokio::test(start_paused = true)]
async fn concurrent_look_ups_of_a_name_are_one() {
    let (scripted, resolver) = Scripted::new([(1_000, addresses(&[PUBLIC], 0))]);
    let mut waiting = JoinSet::new();
    for _ in 0..50 {
        let resolver = Arc::clone(&resolver);
        waiting.spawn(async move { resolve(&resolver, "allowed.example:443").await });
    }
    assert!(waiting.join_all().await.iter().all(Result::is_ok));
    assert_eq!(scripted.asked(), 1);
    resolve(&resolver, "allowed.example:443").await.unwrap();
    resolve(&resolver, "other.example:443").await.unwrap();
    assert_eq!(scripted.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn another_takes_over_when_whoever_looks_up_goes_away() {
    let (scripted, resolver) = Scripted::new([(2_000, addresses(&[PUBLIC], 60))]);
    let mut leader = JoinSet::new();
    let first = Arc::clone(&resolver);
    leader.spawn(async move { resolve(&first, "allowed.example:443").await });
    time::sleep(Duration::from_secs(1)).await;
    let follower = resolve(&resolver, "allowed.example:443");
    let cancel = async {
        time::sleep(Duration::from_millis(500)).await;
        leader.shutdown().await;
    };
    let begun = Instant::now();
    let (resolved, ()) = tokio::join!(follower, cancel);
    resolved.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(2_500));
    assert_eq!(scripted.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_bounded_and_gives_way_to_what_is_new() {
    let (scripted, resolver) = Scripted::new([(0, addresses(&[PUBLIC], 300))]);
    for n in 0..10_000 {
        resolve(&resolver, &format!("n{n}.wild.example:443"))
            .await
            .unwrap();
        assert!(resolver.cache.len() <= 4096, "{n}");
    }
    assert!(resolver.cache.len() >= 3584, "{}", resolver.cache.len());
    resolve(&resolver, "n9999.wild.example:443").await.unwrap();
    assert_eq!(scripted.asked(), 10_000);
    // What is out of date goes first.
    time::advance(Duration::from_mins(5)).await;
    for n in 0..4096 {
        resolve(&resolver, &format!("m{n}.wild.example:443"))
            .await
            .unwrap();
    }
    resolve(&resolver, "m0.wild.example:443").await.unwrap();
    assert_eq!(scripted.asked(), 14_096);
}
