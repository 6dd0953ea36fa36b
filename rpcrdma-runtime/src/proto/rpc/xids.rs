/// Gives out transaction ids, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Xids(u32);

impl Xids {
    /// Begins anywhere; after a restart best at random, so that an old call's XID does not come again soon.
    #[must_use]
    pub fn starting_at(first: u32) -> Self {
        Xids(first)
    }

    /// The next one.
    pub fn next_xid(&mut self) -> u32 {
        let xid = self.0;
        self.0 = self.0.wrapping_add(1);
        xid
    }
}
