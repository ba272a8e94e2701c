//! The choices of one seed.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and any seed will do.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Choices of their own, so that what is asked here and there does not mix.
    pub(super) fn split(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap();
        usize::try_from(self.next() % limit).unwrap()
    }

    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Mostly small, now and then a bulk.
    pub(super) fn length(&mut self) -> usize {
        let most = *self.pick(&[1, 10, 100, 5_000, 200_000]);
        1 + self.below(most)
    }
}
