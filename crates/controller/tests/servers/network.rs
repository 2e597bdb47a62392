//! Messages between servers: in order on a connection, late, lost with it, or left over from an older one.

use std::collections::{BTreeMap, VecDeque};

use berth_controller::ServerId;

type Pair = (ServerId, ServerId);

/// What is on its way, encoded.
#[derive(Debug, Default)]
pub struct Network {
    ways: BTreeMap<Pair, VecDeque<Vec<u8>>>,
    /// Of connections that ended: may still arrive, at any time, in any order.
    strays: Vec<(Pair, Vec<u8>)>,
    /// Nothing passes between these.
    cut: Vec<Pair>,
    /// What servers say to themselves waits, as it does where there is more than is said at a time.
    pub own_waits: bool,
    /// Bytes of the largest message so far.
    pub largest: usize,
}

/// Messages on one way beyond which it takes no more.
const WAY_MAX: usize = 6;

impl Network {
    pub fn send(&mut self, pair: Pair, message: Vec<u8>) {
        self.largest = self.largest.max(message.len());
        if !self.is_cut(pair) {
            self.ways.entry(pair).or_default().push_back(message);
        }
    }

    pub fn can_send(&self, pair: Pair) -> bool {
        self.ways.get(&pair).is_none_or(|way| way.len() < WAY_MAX)
    }

    /// Ways with something on them, those of old connections counted as one.
    pub fn busy(&self) -> usize {
        self.ways.values().filter(|way| !way.is_empty()).count() + usize::from(!self.strays.is_empty())
    }

    /// Takes the next message off one of the busy ways; which stray it is, `which` says.
    pub fn take(&mut self, busy: usize, which: usize) -> Option<(Pair, Vec<u8>)> {
        let way = self.ways.iter_mut().filter(|(_, way)| !way.is_empty()).nth(busy);
        if let Some((pair, way)) = way {
            return Some((*pair, way.pop_front()?));
        }
        (!self.strays.is_empty()).then(|| self.strays.swap_remove(which % self.strays.len()))
    }

    /// A connection ends; what is on it is lost, or comes later.
    pub fn break_off(&mut self, pair: Pair, strays: bool) {
        let lost = self.ways.remove(&pair).unwrap_or_default();
        if strays {
            self.strays.extend(lost.into_iter().map(|message| (pair, message)));
        }
    }

    /// Takes off all that is on a way, in order.
    pub fn intercept(&mut self, pair: Pair) -> Vec<Vec<u8>> {
        self.ways.remove(&pair).into_iter().flatten().collect()
    }

    /// A server is gone, with all that it was about to say.
    pub fn gone(&mut self, server: ServerId) {
        self.ways.retain(|(from, to), _| *from != server && *to != server);
    }

    pub fn cut(&mut self, pair: Pair) {
        self.cut.push(pair);
        self.break_off(pair, false);
    }

    /// Everything passes again.
    pub fn mend(&mut self) {
        self.cut.clear();
    }

    pub fn heal(&mut self) {
        self.mend();
        self.own_waits = false;
    }

    pub fn is_cut(&self, pair: Pair) -> bool {
        self.cut.contains(&pair)
    }
}
