use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{advance, pause},
};

use super::*;
use crate::destination::Scheme;

fn key(client: &str, generation: u64, address: &str) -> Key {
    Key {
        client: ClientKey::Address(client.parse().unwrap()),
        way: Way {
            generation,
            destination: Destination::parse_authority(Scheme::Http, "a.example:80").unwrap(),
            addresses: [address.parse().unwrap()].into(),
        },
    }
}

/// Our end and the origin's.
#[expect(clippy::disallowed_methods, reason = "a test is the peer")]
async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    (ours.unwrap(), theirs.unwrap().0)
}

#[tokio::test]
async fn a_connection_serves_only_what_it_was_made_for() {
    let pool = Pool::default();
    let made_for = key("192.0.2.1", 1, "192.0.2.80:80");
    let (ours, _theirs) = connection().await;
    pool.keep(made_for.clone(), ours);
    for other in [
        key("192.0.2.2", 1, "192.0.2.80:80"),
        key("192.0.2.1", 0, "192.0.2.80:80"),
        key("192.0.2.1", 1, "192.0.2.81:80"),
    ] {
        assert!(pool.take(&other, true).is_none(), "{other:?}");
    }
    assert!(pool.take(&made_for, true).is_some());
    assert!(pool.take(&made_for, true).is_none());
}

#[tokio::test]
async fn what_the_origin_closed_or_wrote_to_is_not_used_again() {
    let pool = Pool::default();
    let key = key("192.0.2.1", 1, "192.0.2.80:80");
    let (closed, theirs) = connection().await;
    drop(theirs);
    pool.keep(key.clone(), closed);
    let (written, mut theirs) = connection().await;
    theirs.write_all(b"HTTP/1.1 408 \r\n\r\n").await.unwrap();
    pool.keep(key.clone(), written);
    assert!(pool.take(&key, true).is_none());
    assert_eq!(pool.lock().count, 0);
}

#[tokio::test]
async fn a_request_that_cannot_be_repeated_takes_only_a_fresh_connection() {
    let pool = Pool::default();
    let key = key("192.0.2.1", 1, "192.0.2.80:80");
    let pairs = [connection().await, connection().await, connection().await];
    pause();
    let [one, two, three] = pairs.map(|(ours, theirs)| {
        pool.keep(key.clone(), ours);
        theirs
    });
    assert!(pool.take(&key, false).is_some());
    advance(FRESH).await;
    assert!(pool.take(&key, false).is_none(), "used too long ago");
    assert!(pool.take(&key, true).is_some(), "good for a GET");
    advance(KEPT).await;
    pool.sweep();
    assert_eq!(pool.lock().count, 0);
    drop((one, two, three));
}

#[tokio::test]
async fn what_another_thread_kept_is_used_where_this_one_kept_nothing() {
    let pool = Arc::new(Pool::default());
    let key = key("192.0.2.1", 1, "192.0.2.80:80");
    let (own, mut of_own) = connection().await;
    pool.keep(key.clone(), own);
    let (kept, there) = (Arc::clone(&pool), key.clone());
    let mut of_other = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (other, theirs) = connection().await;
            kept.keep(there, other);
            theirs.into_std().unwrap()
        })
    })
    .join()
    .map(|theirs| TcpStream::from_std(theirs).unwrap())
    .unwrap();
    let mut first = pool.take(&key, true).unwrap();
    let mut second = pool.take(&key, true).unwrap();
    // The runtime that made the second is gone; this one hears of what arrives.
    let heard = async {
        of_own.write_all(b"own").await.unwrap();
        of_other.write_all(b"other").await.unwrap();
        let (mut own, mut other) = ([0; 3], [0; 5]);
        first.read_exact(&mut own).await.unwrap();
        second.read_exact(&mut other).await.unwrap();
        assert_eq!((&own, &other), (b"own", b"other"));
    };
    tokio::time::timeout(Duration::from_secs(20), heard)
        .await
        .unwrap();
}

#[tokio::test]
async fn one_client_cannot_take_all_the_room() {
    let pool = Pool::default();
    let mut theirs = Vec::new();
    for at in 0..=MOST_PER_CLIENT {
        let (ours, origin) = connection().await;
        theirs.push(origin);
        pool.keep(
            key("192.0.2.1", 1, &format!("192.0.2.80:{}", 1 + at / 4)),
            ours,
        );
    }
    assert_eq!(pool.lock().count, MOST_PER_CLIENT);
    let (ours, _origin) = connection().await;
    pool.keep(key("192.0.2.2", 1, "192.0.2.80:80"), ours);
    assert_eq!(pool.lock().count, MOST_PER_CLIENT + 1);
}

#[tokio::test]
async fn a_closed_pool_keeps_nothing() {
    let pool = Pool::default();
    let key = key("192.0.2.1", 1, "192.0.2.80:80");
    let (before, _origin) = connection().await;
    let (after, mut theirs) = connection().await;
    pool.keep(key.clone(), before);
    pool.close();
    assert_eq!(pool.lock().count, 0);
    pool.keep(key.clone(), after);
    assert!(pool.take(&key, true).is_none());
    assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn what_was_made_under_an_older_configuration_is_closed() {
    let pool = Pool::default();
    let old = key("192.0.2.1", 1, "192.0.2.80:80");
    let (ours, _theirs) = connection().await;
    pool.keep(old.clone(), ours);
    assert!(
        pool.take(&key("192.0.2.2", 2, "192.0.2.80:80"), true)
            .is_none()
    );
    assert_eq!(pool.lock().count, 1, "of another client");
    assert!(
        pool.take(&key("192.0.2.1", 2, "192.0.2.80:80"), true)
            .is_none()
    );
    assert_eq!(pool.lock().count, 0);
    assert!(pool.take(&old, true).is_none());
}

#[tokio::test]
async fn what_is_forgotten_is_closed_and_nothing_else() {
    let pool = Pool::default();
    let run = |id: &str| Key {
        client: ClientKey::Run(crate::record::RunId::parse(id).unwrap()),
        ..key("192.0.2.1", 3, "192.0.2.80:80")
    };
    let keys = [
        run("ended"),
        run("open"),
        key("192.0.2.1", 3, "192.0.2.80:80"),
    ];
    let mut origins = Vec::new();
    for key in &keys {
        let (ours, theirs) = connection().await;
        pool.keep(key.clone(), ours);
        origins.push(theirs);
    }
    pool.forget(|client, _| *client == run("ended").client);
    let left = keys.map(|key| pool.take(&key, true).is_some());
    assert_eq!(left, [false, true, true]);
}
