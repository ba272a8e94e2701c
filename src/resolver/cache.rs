//! Answers kept for their clamped TTL, bounded in number.
