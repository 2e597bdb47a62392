//! Rows of prices, one for each kind of ask, which follow the changes of hosts.

use std::collections::HashMap;

use super::{fleet::FleetAsk, recency::Recency};

/// Prices kept in all rows together; the rows least recently used go.
const PRICES_MAX: usize = 1 << 21;
/// Rows kept even where one alone has very many prices.
const ROWS_MIN: usize = 8;

/// What prices depend on besides the ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceInputs {
    /// Of what is expected.
    pub epoch: u64,
    /// How many changes of hosts have been seen.
    pub seen: u64,
}

/// The prices of one kind of ask, by host; infinite where it does not fit.
#[derive(Debug, Clone)]
pub struct PriceRow {
    pub prices: Vec<f64>,
    as_of: Option<PriceInputs>,
    used: u64,
}

impl PriceRow {
    /// Prices again what has changed.
    pub fn catch_up(&mut self, now: PriceInputs, recency: &Recency, price: impl Fn(usize) -> f64) {
        match self.as_of.replace(now) {
            Some(then) if then.epoch == now.epoch => {
                recency.since(then.seen).for_each(|at| self.prices[at] = price(at));
            }
            _ => (0..self.prices.len()).for_each(|at| self.prices[at] = price(at)),
        }
    }
}

/// The rows of the asks seen lately.
#[derive(Debug, Clone, Default)]
pub struct PriceRows {
    rows: HashMap<FleetAsk, PriceRow>,
    clock: u64,
}

impl PriceRows {
    /// The row of an ask, perhaps behind.
    pub fn row(&mut self, fleet_ask: &FleetAsk, hosts: usize) -> &mut PriceRow {
        self.clock += 1;
        if !self.rows.contains_key(fleet_ask) {
            self.make_room(hosts);
            let row = PriceRow { prices: Vec::new(), as_of: None, used: 0 };
            self.rows.insert(fleet_ask.clone(), row);
        }
        let row = self.rows.get_mut(fleet_ask).expect("it was there or was just put there");
        row.used = self.clock;
        row.prices.resize(hosts, f64::INFINITY);
        row
    }

    #[expect(clippy::disallowed_methods, reason = "no two were used last at the same time")]
    fn make_room(&mut self, hosts: usize) {
        let rows_max = (PRICES_MAX / hosts.max(1)).max(ROWS_MIN);
        if self.rows.len() < rows_max {
            return;
        }
        let oldest = self.rows.iter().min_by_key(|(_, row)| row.used).map(|(fleet_ask, _)| fleet_ask.clone());
        oldest.and_then(|fleet_ask| self.rows.remove(&fleet_ask));
    }
}
