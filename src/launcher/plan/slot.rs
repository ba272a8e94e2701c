//! What can be made before anybody knows which run will have it: all of it at its default.

use ipnet::Ipv4Net;

use super::{
    Namespace, PlanError, Slot,
    build::{HOSTNAME, slice},
    files::{holder, output},
    hardening,
};
use crate::{
    launcher::spec::{Input, Limits, NetworkChoice, RunSpec},
    record::RunId,
};

/// Whether a run may have a slot: what a slot has in it is as this run asks for. What the sandbox
/// itself is, its memory for example, no slot has a part in.
pub fn fits_slot(spec: &RunSpec) -> bool {
    let default = Limits::default();
    let limits = &spec.limits;
    // The holder's own, and those of what it holds.
    let of_holder = |limits: &Limits| (limits.output, limits.nofile, limits.fsize);
    let fits_output = spec.output.is_none() || of_holder(limits) == of_holder(&default);
    let is_copied = matches!(spec.input, Some(Input::Copy(_)));
    // Another runtime may have namespaces of its own kind.
    spec.network == NetworkChoice::Egress && spec.runtime.is_none() && fits_output && !is_copied
}

/// Plans a slot at a range.
///
/// # Errors
/// The range is too small.
pub fn slot(id: &RunId, subnet: Ipv4Net, has_ipv6: bool) -> Result<Slot, PlanError> {
    let limits = Limits::default();
    let slice = slice(id, subnet)?;
    let volume = output(id, limits.output);
    let namespace = Namespace {
        network: slice.name.clone(),
        address: slice.sandbox,
        hostname: HOSTNAME.to_owned(),
        dns: vec![slice.proxy],
        sysctls: hardening::sysctls(has_ipv6),
    };
    let mut holder = holder(id, &limits, [("/output", &volume)]);
    holder.namespace = Some(namespace);
    Ok(Slot {
        id: id.clone(),
        slice,
        volume,
        holder,
    })
}
