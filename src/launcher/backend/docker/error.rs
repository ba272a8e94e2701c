//! What a call to the engine came to.

use std::{error::Error, time::Duration};

use futures_util::{Stream, StreamExt};
use tokio::time::{Instant, sleep};

use crate::launcher::backend::BackendError;

/// The longest that an engine may take for one call that does not wait for a command; a busy one
/// that copies an image's layers needs a good part of it.
const CALL_LIMIT: Duration = Duration::from_mins(2);

/// How long a container may take from its end until its state has a name that is known.
const SETTLE_LIMIT: Duration = Duration::from_secs(20);

/// How often it is asked meanwhile.
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

/// Why a call failed, before it is known what that means for the run.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The engine said no.
    #[error("{message}")]
    Answer {
        /// The HTTP status; 500 where the refusal came after the head of the answer.
        status: u16,
        /// The engine's own words.
        message: String,
    },
    /// The answer says what nobody here knows.
    #[error("{0}")]
    Unreadable(String),
    /// There was no answer, or one that broke off.
    #[error("{0}")]
    Transport(String),
}

impl CallError {
    /// What it means for somebody who was `doing` something, a phrase such as `create a volume`.
    pub(super) fn during(self, doing: impl Into<String>) -> BackendError {
        let doing = doing.into();
        match self {
            Self::Answer { message, .. } => BackendError::Refused {
                doing,
                why: message,
            },
            Self::Unreadable(why) | Self::Transport(why) => BackendError::Gone { doing, why },
        }
    }

    /// Whether the engine refused and used these words.
    pub(super) fn says(&self, words: &str) -> bool {
        matches!(self, Self::Answer { message, .. } if message.contains(words))
    }

    /// Whether the engine does not have what the call names.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Answer { status: 404, .. })
    }
}

impl From<bollard::errors::Error> for CallError {
    fn from(error: bollard::errors::Error) -> Self {
        use bollard::errors::Error as E;
        match error {
            E::DockerResponseServerError {
                status_code,
                message,
            } => Self::Answer {
                status: status_code,
                message: one_line(&message),
            },
            E::DockerStreamError { error } => Self::Answer {
                status: 500,
                message: one_line(&error),
            },
            E::RequestTimeoutError => Self::timed_out(),
            unreadable @ (E::JsonDataError { .. } | E::JsonSerdeError { .. }) => {
                Self::Unreadable(chain(&unreadable))
            }
            other => Self::Transport(chain(&other)),
        }
    }
}

impl CallError {
    fn timed_out() -> Self {
        Self::Transport(format!("no answer within {} s", CALL_LIMIT.as_secs()))
    }
}

/// Waits for a call's answer, but not for ever.
pub(super) async fn call<T>(
    request: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(CALL_LIMIT, request).await {
        Ok(answer) => answer.map_err(CallError::from),
        Err(_elapsed) => Err(CallError::timed_out()),
    }
}

/// Makes a call again while its answer says what the library does not know: Podman's `stopped`, in
/// which a container is until it is `exited`.
pub(super) async fn settled<T, F>(mut request: impl FnMut() -> F) -> Result<T, CallError>
where
    F: Future<Output = Result<T, bollard::errors::Error>>,
{
    let limit = Instant::now() + SETTLE_LIMIT;
    loop {
        match call(request()).await {
            Err(CallError::Unreadable(_)) if Instant::now() < limit => sleep(SETTLE_INTERVAL).await,
            answer => return answer,
        }
    }
}

/// The items of a long answer, each of which may take as long as a whole call.
pub(super) fn items<T>(
    stream: impl Stream<Item = Result<T, bollard::errors::Error>> + Send + Unpin,
) -> impl Stream<Item = Result<T, CallError>> + Send {
    futures_util::stream::unfold(Some(stream), async |stream| {
        let mut stream = stream?;
        match tokio::time::timeout(CALL_LIMIT, stream.next()).await {
            Ok(Some(item)) => Some((item.map_err(CallError::from), Some(stream))),
            Ok(None) => None,
            Err(_elapsed) => Some((Err(CallError::timed_out()), None)),
        }
    })
}

/// An error with all of its causes, of which the transport's outermost layers say nothing.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    one_line(&text)
}

/// The text without line breaks and other control characters, which a registry may have chosen.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_refusal_and_a_broken_transport_means_gone() {
        let refused = CallError::from(bollard::errors::Error::DockerResponseServerError {
            status_code: 409,
            message: "name in use\nby another\u{1b}[31m".to_owned(),
        });
        assert!(!refused.is_missing());
        assert_eq!(
            refused.during("create a container").to_string(),
            "failed to create a container: name in use by another [31m"
        );
        let broken = bollard::errors::Error::from(std::io::Error::other("broken pipe"));
        let gone = CallError::from(broken);
        assert!(!gone.is_missing());
        assert_eq!(
            gone.during("create a container").to_string(),
            "the engine does not answer, failed to create a container: broken pipe"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_asked_for_until_it_can_be_read_but_not_for_ever() {
        let unreadable = || {
            let error = serde_json::from_str::<bool>("stopped").unwrap_err();
            Err(bollard::errors::Error::JsonSerdeError { err: error })
        };
        let mut answers = vec![Ok(7), unreadable(), unreadable()];
        let answer = settled(|| std::future::ready(answers.pop().unwrap())).await;
        assert_eq!(answer.unwrap(), 7);
        let begun = Instant::now();
        let answer: Result<(), _> =
            settled(|| std::future::ready(unreadable().map(|_: u8| ()))).await;
        assert!(matches!(answer, Err(CallError::Unreadable(_))));
        assert_eq!(begun.elapsed(), SETTLE_LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_wait_for_ever() {
        let silent = std::future::pending::<Result<(), bollard::errors::Error>>();
        let outcome = call(silent).await.unwrap_err().to_string();
        assert_eq!(outcome, "no answer within 120 s");
    }
}
