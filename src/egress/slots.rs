//! Networks made ahead of the runs that will have them. An idle slot's addresses are nobody's: its
//! clients are unknown until a run claims it, and a slot is claimed once.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Registration, RegistrationError};
use crate::record::RunId;

/// The most slots at once, of all pools.
const MOST: usize = 256;

/// What `PUT /v1/slots/{slot}` offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its id.
    pub id: RunId,
    /// Who may claim it: whoever names this pool.
    pub pool: Arc<str>,
    /// What the sources of its run will be.
    pub sources: Vec<IpAddr>,
    /// What the listener of its run will be.
    pub listener: Option<Ipv4Addr>,
}

/// Why a slot is not taken, or not given.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// Offered before, and claimed or of other addresses now.
    #[error("slot {0} was offered already")]
    Known(RunId),
    /// An address that another slot has.
    #[error("{0} is an address of another slot")]
    AddressTaken(IpAddr),
    /// A slot without an address.
    #[error("a slot needs at least one source address")]
    NoSource,
    /// There are as many as may be.
    #[error("there are {MOST} slots already")]
    TooMany,
    /// No slot of the pool is idle.
    #[error("no slot of pool {0} is idle")]
    NoneIdle(Arc<str>),
    /// The run cannot be registered; the slot stays idle.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
}

/// The slots that are idle, and those that a registered run has.
#[derive(Debug, Default)]
pub struct SlotTable {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    idle: BTreeMap<RunId, Slot>,
    claimed: BTreeMap<RunId, Slot>,
}

impl SlotTable {
    /// Takes a slot; the same one again changes nothing.
    pub fn offer(&self, slot: Slot) -> Result<(), SlotError> {
        let mut table = self.lock();
        if slot.sources.is_empty() {
            return Err(SlotError::NoSource);
        }
        if table.claimed.values().any(|claimed| claimed.id == slot.id) {
            return Err(SlotError::Known(slot.id));
        }
        match table.idle.get(&slot.id) {
            Some(known) if *known == slot => return Ok(()),
            Some(_) => return Err(SlotError::Known(slot.id)),
            None => {}
        }
        if let Some(taken) = slot.sources.iter().find(|source| table.has(source)) {
            return Err(SlotError::AddressTaken(*taken));
        }
        if table.idle.len() >= MOST {
            return Err(SlotError::TooMany);
        }
        table.idle.insert(slot.id.clone(), slot);
        Ok(())
    }

    /// Takes an idle slot back, after which nobody can claim it; says whether it was idle.
    pub fn withdraw(&self, id: &RunId) -> bool {
        self.lock().idle.remove(id).is_some()
    }

    /// Gives a run an idle slot of a pool, the oldest, if `register` takes it with that slot's
    /// addresses; a run that has one keeps it. A slot whose addresses are somebody's is dropped.
    pub(super) fn claim(
        &self,
        pool: &Arc<str>,
        run: &RunId,
        register: impl Fn(&Slot) -> Result<(), RegistrationError>,
    ) -> Result<Slot, SlotError> {
        // Security: under one lock, so that of two runs one finds the slot gone.
        let mut table = self.lock();
        if let Some(slot) = table.claimed.get(run) {
            register(slot)?;
            return Ok(slot.clone());
        }
        loop {
            let slot = table.idle.values().find(|slot| slot.pool == *pool);
            let slot = slot.cloned();
            let slot = slot.ok_or_else(|| SlotError::NoneIdle(Arc::clone(pool)))?;
            match register(&slot) {
                Err(
                    RegistrationError::SourceTaken { .. } | RegistrationError::SourceConfigured(_),
                ) => {
                    table.idle.remove(&slot.id);
                }
                registered => {
                    registered?;
                    table.idle.remove(&slot.id);
                    table.claimed.insert(run.clone(), slot.clone());
                    return Ok(slot);
                }
            }
        }
    }

    /// Forgets the slot of a run that was removed. It is not idle again.
    pub(super) fn release(&self, run: &RunId) {
        self.lock().claimed.remove(run);
    }

    /// Every slot, and the run that has it.
    pub fn all(&self) -> Vec<(Slot, Option<RunId>)> {
        let table = self.lock();
        let idle = table.idle.values().map(|slot| (slot.clone(), None));
        let claimed = table.claimed.iter();
        let claimed = claimed.map(|(run, slot)| (slot.clone(), Some(run.clone())));
        idle.chain(claimed).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn has(&self, source: &IpAddr) -> bool {
        let mut all = self.idle.values().chain(self.claimed.values());
        all.any(|slot| slot.sources.contains(source))
    }
}

impl Slot {
    /// What its run is registered as, with what only the run can say.
    pub(super) fn registration(&self, asked: &Registration) -> Registration {
        Registration {
            sources: self.sources.clone(),
            listener: self.listener,
            ..asked.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str) -> RunId {
        RunId::parse(id).unwrap()
    }

    fn slot(id: &str, pool: &str, last: u8) -> Slot {
        Slot {
            id: run(id),
            pool: pool.into(),
            sources: vec![slot_address(last)],
            listener: Some([10, 231, 0, 2].into()),
        }
    }

    fn slot_address(last: u8) -> IpAddr {
        [10, 231, 0, last].into()
    }

    fn claim(table: &SlotTable, pool: &str, of: &str) -> Result<String, String> {
        let slot = table.claim(&pool.into(), &run(of), |_| Ok(()));
        let slot = slot.map(|slot| slot.id.to_string());
        slot.map_err(|error| error.to_string())
    }

    #[test]
    fn a_slot_is_claimed_once_and_by_its_own_pool() {
        let table = SlotTable::default();
        table.offer(slot("s1", "a", 3)).unwrap();
        table.offer(slot("s2", "b", 11)).unwrap();
        let gone = Err("no slot of pool a is idle".to_owned());
        assert_eq!(claim(&table, "a", "r1"), Ok("s1".to_owned()));
        assert_eq!(claim(&table, "a", "r2"), gone);
        // A run that asks again has what it has.
        assert_eq!(claim(&table, "a", "r1"), Ok("s1".to_owned()));
        table.release(&run("r1"));
        assert_eq!(claim(&table, "a", "r2"), gone);
        assert_eq!(table.all(), [(slot("s2", "b", 11), None)]);
    }

    #[test]
    fn a_slot_whose_address_is_taken_is_dropped_and_the_next_is_given() {
        let table = SlotTable::default();
        table.offer(slot("s1", "a", 3)).unwrap();
        table.offer(slot("s2", "a", 11)).unwrap();
        let taken = |slot: &Slot| match &*slot.sources {
            [source] if *source == slot_address(3) => Err(RegistrationError::SourceTaken {
                source_address: *source,
                holder: run("r0"),
            }),
            _ => Ok(()),
        };
        let given = table.claim(&"a".into(), &run("r1"), taken).unwrap();
        assert_eq!(given.id, run("s2"));
        assert_eq!(table.all(), [(given, Some(run("r1")))]);
    }

    #[test]
    fn a_slot_whose_run_is_not_registered_stays_idle() {
        let table = SlotTable::default();
        table.offer(slot("s1", "a", 3)).unwrap();
        let refused = table.claim(&"a".into(), &run("r1"), |_| {
            Err(RegistrationError::Ending(run("r1")))
        });
        assert!(refused.is_err());
        assert_eq!(claim(&table, "a", "r2"), Ok("s1".to_owned()));
    }

    #[test]
    fn a_slot_that_is_withdrawn_cannot_be_claimed_and_one_that_is_claimed_not_withdrawn() {
        let table = SlotTable::default();
        table.offer(slot("s1", "a", 3)).unwrap();
        table.offer(slot("s2", "a", 11)).unwrap();
        assert!(table.withdraw(&run("s1")));
        assert!(!table.withdraw(&run("s1")));
        assert_eq!(claim(&table, "a", "r1"), Ok("s2".to_owned()));
        assert!(!table.withdraw(&run("s2")));
    }

    #[test]
    fn what_is_offered_twice_or_has_an_address_twice_is_refused() {
        let table = SlotTable::default();
        table.offer(slot("s1", "a", 3)).unwrap();
        table.offer(slot("s1", "a", 3)).unwrap();
        let refused = |slot| table.offer(slot).unwrap_err().to_string();
        assert_eq!(refused(slot("s1", "a", 4)), "slot s1 was offered already");
        let taken = "10.231.0.3 is an address of another slot";
        assert_eq!(refused(slot("s2", "b", 3)), taken);
        claim(&table, "a", "r1").unwrap();
        assert_eq!(refused(slot("s1", "a", 3)), "slot s1 was offered already");
        assert_eq!(refused(slot("s2", "b", 3)), taken);
        let bare = Slot {
            sources: Vec::new(),
            ..slot("s3", "a", 5)
        };
        assert_eq!(refused(bare), "a slot needs at least one source address");
    }

    #[test]
    fn there_is_an_end_to_offering() {
        let table = SlotTable::default();
        let slot = |at: usize| Slot {
            sources: vec![IpAddr::from(u128::try_from(at).unwrap().to_be_bytes())],
            ..slot(&format!("s{at}"), "a", 0)
        };
        for at in 0..MOST {
            table.offer(slot(at)).unwrap();
        }
        let refused = table.offer(slot(MOST)).unwrap_err().to_string();
        assert_eq!(refused, "there are 256 slots already");
    }
}
