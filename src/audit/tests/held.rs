//! Closes that wait for the next line.

use super::*;

/// Lets closes wait, as `hold_closes` does, and closes two exchanges.
fn two_held(log: &Arc<AuditLog>) {
    log.with_journal(|journal| journal.hold(true));
    for _ in 0..2 {
        let mut exchange = log.open_exchange(decision(log, Decision::Allow)).unwrap();
        exchange.close(&closing(Outcome::Done));
    }
}

#[test]
fn a_held_close_leaves_before_the_next_line_and_with_a_flush() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    two_held(&log);
    assert_eq!(events(&path), ["decision", "close", "decision"]);
    let head = log.head().head;
    assert_eq!(events(&path).last().unwrap(), "close");
    assert_eq!(linked(std::slice::from_ref(&path)), head);
    assert!(read(&path).is_sorted_by_key(|line| line.ts));
}

#[test]
fn a_close_that_refuses_is_not_held() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    two_held(&log);
    let mut exchange = log.open_exchange(decision(&log, Decision::Allow)).unwrap();
    exchange.close(&Closing {
        reason: Some(Reason::ConnectFailed),
        ..closing(Outcome::Refused)
    });
    let expected = [
        "decision", "close", "decision", "close", "decision", "close",
    ];
    assert_eq!(events(&path), expected);
}

#[test]
fn no_more_than_a_few_closes_are_held() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let open = |_| log.open_exchange(decision(&log, Decision::Allow)).unwrap();
    let exchanges: Vec<OpenExchange> = (0..100).map(open).collect();
    log.with_journal(|journal| journal.hold(true));
    drop(exchanges);
    assert_eq!(events(&path).len(), 100 + 65);
}

#[test]
fn held_closes_outlast_a_full_disk() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    two_held(&log);
    let full = FullDisk::under(&log);
    log.with_journal(Journal::flush);
    assert!(!log.is_writable());
    drop(full);
    assert!(log.is_writable());
    let expected = ["decision", "close", "decision", "close", "gap"];
    assert_eq!(events(&path), expected);
}

#[tokio::test]
async fn a_held_close_is_written_soon_and_at_the_stop_at_once() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let stopping = CancellationToken::new();
    let holding = log.hold_closes(&stopping);
    let closing_one = async {
        // The other has its turn first, and holds.
        tokio::task::yield_now().await;
        two_held(&log);
        while events(&path).len() < 4 {
            tokio::time::sleep(HELD).await;
        }
        stopping.cancel();
    };
    tokio::join!(holding, closing_one);
    let exchange = log.open_exchange(decision(&log, Decision::Allow)).unwrap();
    drop(exchange);
    assert_eq!(events(&path).len(), 6);
}
