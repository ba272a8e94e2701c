//! Values of the engine's API, compared by what they mean.

use serde_json::Value;

/// The most that an error shows of a value.
const SHOWN: usize = 200;

/// Whether two values mean the same: what is absent is as good as what is empty, and lists whose
/// order says nothing may come in any. Command lines are compared in their order elsewhere.
pub(super) fn same(planned: &Value, got: &Value) -> bool {
    match (planned, got) {
        (Value::Object(planned), Value::Object(got)) => {
            planned.keys().chain(got.keys()).all(|key| {
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned();
                same(
                    &of(planned).unwrap_or_default(),
                    &of(got).unwrap_or_default(),
                )
            })
        }
        (Value::Array(planned), Value::Array(got)) => same_items(planned, got),
        _ => planned == got || (is_empty(planned) && is_empty(got)),
    }
}

/// Whether a value says nothing: null, false, 0, or a text, list or map with nothing in it.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(values) => values.iter().all(is_empty),
        Value::Object(values) => values.values().all(is_empty),
    }
}

/// A value as an error shows it.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn same_items(planned: &[Value], got: &[Value]) -> bool {
    let mut left: Vec<&Value> = got.iter().collect();
    let all_found = planned.iter().all(|item| {
        let found = left.iter().position(|other| same(item, other));
        found.map(|at| left.swap_remove(at)).is_some()
    });
    all_found && left.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_is_as_good_as_what_is_empty() {
        for (planned, got, expected) in [
            (json!(null), json!([]), true),
            (json!(false), json!(null), true),
            (json!(0), json!(null), true),
            (json!([0, 0]), json!(null), true),
            (
                json!({"Type": "none"}),
                json!({"Type": "none", "Config": {}}),
                true,
            ),
            (json!(["A", "B"]), json!(["B", "A"]), true),
            (json!(["A", "A"]), json!(["A", "B"]), false),
            (json!(["A"]), json!(["A", ""]), false),
            (json!(["A"]), json!(["A", "A"]), false),
            (json!(true), json!(null), false),
            (json!(1), json!(1.0), false),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": 1}), json!(null), false),
        ] {
            assert_eq!(same(&planned, &got), expected, "{planned} {got}");
            assert_eq!(same(&got, &planned), expected, "{got} {planned}");
        }
    }
}
