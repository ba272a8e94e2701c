//! What looks like a credential. The sandbox holds none: whatever it holds, hostile code can send
//! to any host that it may reach.

/// Words that, as a whole part of a name, say that the value is secret.
const SECRET_WORDS: &[&str] = &[
    "cookie",
    "credential",
    "credentials",
    "creds",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "secrets",
];

/// Words that say so unless the value is a number or a truth value.
const SETTING_WORDS: &[&str] = &[
    "auth",
    "pass",
    "pat",
    "session",
    "signature",
    "token",
    "tokens",
];

/// Last words of a name that make it the place of something.
const PLACES: &[&str] = &[
    "dir", "endpoint", "file", "header", "host", "path", "sock", "uri", "url",
];

/// What a key is called that is secret; `KEY` alone may be a key of a table.
const SECRET_KEYS: &[&str] = &[
    "access",
    "account",
    "api",
    "app",
    "auth",
    "client",
    "consumer",
    "deploy",
    "encryption",
    "host",
    "license",
    "master",
    "private",
    "secret",
    "service",
    "shared",
    "signing",
    "ssh",
    "storage",
];

/// How the tokens of widely used services begin.
const PREFIXES: &[&str] = &[
    "AIza",
    "AKIA",
    "ASIA",
    "EAAC",
    "SG.",
    "dop_v1_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "hf_",
    "npm_",
    "pypi-",
    "rk_live_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "shpat_",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "ya29.",
];

/// Why a variable looks like a credential, by its name or by the shape of its value; the value is
/// never repeated.
pub fn looks_like_a_credential(name: &str, value: &str) -> Option<&'static str> {
    if value.is_empty() {
        return None;
    }
    by_name(name, value).or_else(|| by_shape(value))
}

fn by_name(name: &str, value: &str) -> Option<&'static str> {
    const SAYS_SO: &str = "its name says that it is one";
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .collect();
    // Where a secret is, is no secret.
    if words.last().is_some_and(|last| PLACES.contains(last)) {
        return None;
    }
    // MAX_TOKENS=4096 and USE_AUTH=true are settings; DB_PASSWORD=1234 is not.
    let is_setting = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok();
    let says_so = |word: &&str| {
        // Words run together: dbpassword, authtoken.
        let ends = |parts: &[&str]| parts.iter().any(|part| word.ends_with(part));
        ends(&["password", "passwd", "secret", "apikey"])
            || SECRET_WORDS.contains(word)
            || (!is_setting && (SETTING_WORDS.contains(word) || word.ends_with("token")))
    };
    if words.iter().any(says_so) {
        return Some(SAYS_SO);
    }
    let is_key = |pair: &[&str]| match pair {
        [what, "key" | "keys"] => SECRET_KEYS.contains(what),
        _ => false,
    };
    words.windows(2).any(is_key).then_some(SAYS_SO)
}

fn by_shape(value: &str) -> Option<&'static str> {
    let trimmed = value.trim();
    if trimmed.contains("-----BEGIN") && trimmed.contains("PRIVATE KEY") {
        return Some("its value is a private key");
    }
    let bare = ["Bearer ", "bearer ", "Basic ", "basic ", "token "]
        .iter()
        .find_map(|scheme| trimmed.strip_prefix(scheme));
    if bare.is_some_and(|rest| rest.len() >= 8 && !rest.contains(' ')) {
        return Some("its value is an Authorization header");
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-_.=/+".contains(c);
    let known = PREFIXES.iter().any(|prefix| {
        trimmed
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.len() >= 12 && rest.chars().all(is_token))
    });
    if known {
        return Some("its value has the shape of a service's token");
    }
    if is_web_token(trimmed) {
        return Some("its value is a JSON Web Token");
    }
    has_password(trimmed).then_some("its value is a URL with a password in it")
}

/// RFC 7519: three base64url parts, of which the first two are JSON objects (`eyJ` is `{"`).
fn is_web_token(value: &str) -> bool {
    let parts: Vec<&str> = value.split('.').collect();
    let [header, claims, _] = parts.as_slice() else {
        return false;
    };
    header.starts_with("eyJ") && claims.starts_with("eyJ")
}

/// RFC 3986 section 3.2.1: userinfo with a password, in any URL of the text.
fn has_password(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let authority = rest
            .split(['/', '?', '#', ' ', '"', '\''])
            .next()
            .unwrap_or_default();
        authority
            .rsplit_once('@')
            .and_then(|(userinfo, _)| userinfo.split_once(':'))
            .is_some_and(|(_, password)| !password.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_name_and_by_shape() {
        for (name, value) in [
            ("GITHUB_TOKEN", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
            ("OPENAI_API_KEY", "x"),
            ("DB_PASSWORD", "1234"),
            ("APIKEY2", "x"),
            ("PGPASSWORD", "x"),
            ("authToken", "x"),
            ("npm_config__auth", "x"),
            ("SSH_PRIVATE_KEY", "x"),
            ("SIGNING_KEY", "x"),
            ("X", "ghp_0123456789abcdef0123456789abcdef0123"),
            ("X", "sk-ant-REDACTED"),
            ("X", "xoxb-123456789012-abcdef"),
            ("X", "glpat-0123456789abcdefghij"),
            ("X", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"),
            ("X", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc"),
            ("DATABASE_URL", "postgres://app:hunter2@db.example.com/app"),
            ("X", "Bearer abcdefgh12345678"),
        ] {
            assert!(
                looks_like_a_credential(name, value).is_some(),
                "{name}={value}"
            );
        }
    }

    #[test]
    fn ordinary_variables_are_none() {
        for (name, value) in [
            ("LANG", "C.UTF-8"),
            ("GIT_AUTHOR_NAME", "A U Thor"),
            ("AUTHOR", "A U Thor"),
            ("SORT_KEY", "name"),
            ("KEYBOARD", "de"),
            ("COMPASS", "north"),
            ("PASSENGERS", "3"),
            ("COMMIT", "0123456789abcdef0123456789abcdef01234567"),
            ("DATABASE_URL", "postgres://db.example.com/app"),
            ("URL", "https://user@example.com/"),
            ("TOKEN", ""),
            ("MAX_TOKENS", "4096"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("USE_AUTH", "true"),
            ("SSH_AUTH_SOCK", "/run/ssh"),
            ("SECRET_FILE", "/input/secret"),
            ("MODE", "sk-learn"),
            ("PATTERN", "a.b.c"),
        ] {
            assert_eq!(looks_like_a_credential(name, value), None, "{name}={value}");
        }
    }
}
