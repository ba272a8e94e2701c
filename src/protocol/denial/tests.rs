use super::*;
use crate::destination::{Host, Scheme};

fn denial(reason: Reason) -> Denial {
    Denial {
        reason,
        id: Id(ulid::Ulid::from_parts(1_700_000_000_000, 7)),
        run: Some(RunId::parse("run-1").unwrap()),
        destination: Some(Destination {
            scheme: Scheme::Https,
            host: Host::parse("evil.example.net").unwrap(),
            port: 443,
        }),
        detail: None,
        retry_after: None,
        is_unroutable: false,
    }
}

fn text(denial: &Denial, method: &str) -> String {
    String::from_utf8(denial.to_response(method)).unwrap()
}

#[test]
fn a_failed_connection_says_whether_it_was_refused_or_led_nowhere() {
    for (is_unroutable, error, sentence) in [
        (false, "connection_refused", "accepts no connection"),
        (true, "destination_ip_unroutable", "cannot be reached"),
    ] {
        let failed = Denial {
            is_unroutable,
            ..denial(Reason::ConnectFailed)
        };
        let text = text(&failed, "GET");
        assert!(text.starts_with("HTTP/1.1 502 "), "{text}");
        assert!(text.contains(&format!("; error={error}; ")), "{text}");
        assert!(text.contains(sentence), "{text}");
    }
}

#[test]
fn every_reason_has_the_status_and_proxy_error_of_the_contract() {
    for (reason, status, error) in [
        (Reason::Allowlisted, None, ""),
        (Reason::NotAllowlisted, Some(403), "http_request_denied"),
        (Reason::DeniedByRule, Some(403), "http_request_denied"),
        (Reason::PortNotAllowed, Some(403), "http_request_denied"),
        (Reason::MethodNotAllowed, Some(405), "http_request_denied"),
        (Reason::IpLiteral, Some(403), "http_request_denied"),
        (
            Reason::AddressBlocked,
            Some(403),
            "destination_ip_prohibited",
        ),
        (Reason::LoopDetected, Some(403), "destination_ip_prohibited"),
        (Reason::UnknownClient, Some(403), "http_request_denied"),
        (Reason::BadRequest, Some(400), "http_request_error"),
        (Reason::HostMismatch, Some(400), "http_request_error"),
        (Reason::HeaderTooLarge, Some(431), "http_request_error"),
        (Reason::BudgetExceeded, Some(413), "http_request_denied"),
        (Reason::RateLimited, Some(429), "http_request_denied"),
        (Reason::OverCapacity, Some(503), "proxy_internal_response"),
        (
            Reason::AuditUnavailable,
            Some(503),
            "proxy_internal_response",
        ),
        (Reason::ShuttingDown, Some(503), "proxy_internal_response"),
        (Reason::ResolveFailed, Some(502), "dns_error"),
        (Reason::ResolveTimeout, Some(504), "dns_timeout"),
        (Reason::ConnectFailed, Some(502), "connection_refused"),
        (Reason::ConnectTimeout, Some(504), "connection_timeout"),
        (Reason::UpstreamError, Some(502), "http_protocol_error"),
        (Reason::SniMismatch, None, ""),
        (Reason::SniMissing, None, ""),
        (Reason::NotTls, None, ""),
        (Reason::EchRefused, None, ""),
        (Reason::QueryTypeRefused, None, ""),
    ] {
        assert_eq!(Denial::status_of(reason), status, "{reason}");
        let response = text(&denial(reason), "GET");
        if status.is_none() {
            assert_eq!(response, "", "{reason}");
            continue;
        }
        let line = format!("\r\nProxy-Status: eclusa; error={error}; details=\"{reason}\"\r\n");
        assert!(response.contains(&line), "{reason}: {response}");
    }
}

#[test]
fn no_reason_is_answered_407() {
    for reason in Reason::ALL {
        assert_ne!(Denial::status_of(*reason), Some(407), "{reason}");
    }
}

#[test]
fn every_answer_is_a_message_that_closes_and_whose_length_is_right() {
    for reason in Reason::ALL {
        let denial = denial(*reason);
        let Some(status) = Denial::status_of(*reason) else {
            continue;
        };
        let bytes = denial.to_response("POST");
        let (head, length) = crate::protocol::ResponseHead::parse(&bytes, 4096)
            .unwrap()
            .unwrap();
        assert_eq!(head.status, status, "{reason}");
        assert!(head.wants_close(), "{reason}");
        let body = &bytes[length..];
        let declared = head.fields.one("content-length").unwrap();
        assert_eq!(declared, body.len().to_string().as_bytes(), "{reason}");
        let document: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(document["status"], status, "{reason}");
        assert_eq!(document["reason"], reason.code(), "{reason}");
    }
}

#[test]
fn head_gets_the_same_head_and_no_body() {
    let denial = denial(Reason::NotAllowlisted);
    let (get, head) = (text(&denial, "GET"), text(&denial, "HEAD"));
    assert!(head.ends_with("\r\n\r\n"));
    assert!(get.starts_with(&head));
    assert!(get.len() > head.len());
}

#[test]
fn retry_after_is_whole_seconds_and_at_least_one() {
    for (wait, expected) in [
        (None, "1"),
        (Some(Duration::ZERO), "1"),
        (Some(Duration::from_millis(1)), "1"),
        (Some(Duration::from_millis(1001)), "2"),
        (Some(Duration::from_secs(7)), "7"),
    ] {
        let limited = Denial {
            retry_after: wait,
            ..denial(Reason::RateLimited)
        };
        let line = format!("\r\nRetry-After: {expected}\r\n");
        assert!(text(&limited, "GET").contains(&line), "{wait:?}");
    }
    assert!(!text(&denial(Reason::BadRequest), "GET").contains("Retry-After"));
}

#[test]
fn what_is_unknown_is_null_and_a_detail_is_part_of_the_sentence() {
    let early = Denial {
        run: None,
        destination: None,
        detail: Some("the port is missing".to_owned()),
        ..denial(Reason::BadRequest)
    };
    insta::assert_snapshot!(text(&early, "GET"));
}

#[test]
fn the_agent_is_told_why_and_what_to_ask_for() {
    let mut page = String::new();
    for reason in Reason::ALL {
        let response = text(&denial(*reason), "GET");
        page.extend(["=== ", reason.code(), "\n", &response, "\n"]);
    }
    insta::assert_snapshot!(page.replace('\r', ""));
}
