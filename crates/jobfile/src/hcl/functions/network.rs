//! Functions of blocks of addresses, as `10.0.0.0/8`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Arguments, Function, function};
use crate::hcl::value::Value;

pub(super) static TABLE: &[Function] = &[
    function("cidrhost", 2..=2, |a| {
        let (block, number) = (AddressBlock::read(&a.text(0)?)?, a.whole(1)?);
        Ok(Value::text(block.host(number)?.to_string()))
    }),
    function("cidrnetmask", 1..=1, |a| {
        let block = AddressBlock::read(&a.text(0)?)?;
        if block.bits != 32 {
            return Err("only blocks of IPv4 have a mask".to_owned());
        }
        Ok(Value::text(block.address(u128::MAX << (32 - block.prefix))?.to_string()))
    }),
    function("cidrsubnet", 3..=3, |a| {
        let (block, more, number) = (AddressBlock::read(&a.text(0)?)?, a.count(1)?, a.count(2)?);
        Ok(Value::text(block.part(more, number as u128)?.to_string()))
    }),
    function("cidrsubnets", 2..=usize::MAX, subnets),
];

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy)]
struct AddressBlock {
    /// The first one, in the low `bits`.
    first: u128,
    /// How many bits they share.
    prefix: u32,
    /// The length of an address: 32 or 128.
    bits: u32,
}

impl std::fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address(self.first) {
            Ok(address) => write!(f, "{address}/{}", self.prefix),
            Err(wrong) => f.write_str(&wrong),
        }
    }
}

impl AddressBlock {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a block of addresses, as \"10.0.0.0/8\"");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let (address, bits) = match address.parse().map_err(|_| wrong())? {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(wrong)?;
        let block = Self { first: 0, prefix, bits };
        Ok(Self { first: address & !block.last_host(), ..block })
    }

    /// The number of the last address, which is also the mask of what differs.
    fn last_host(self) -> u128 {
        let free = self.bits - self.prefix;
        if free == 128 { u128::MAX } else { (1 << free) - 1 }
    }

    fn address(self, number: u128) -> Result<IpAddr, String> {
        match self.bits {
            32 => Ok(Ipv4Addr::from((number & u128::from(u32::MAX)) as u32).into()),
            _ => Ok(Ipv6Addr::from(number).into()),
        }
    }

    /// An address by its number; a negative one counts from the end.
    fn host(self, number: i64) -> Result<IpAddr, String> {
        let last = self.last_host();
        let number = match u128::try_from(number) {
            Ok(number) => Some(number),
            Err(_) => last.checked_sub(u128::from(number.unsigned_abs()) - 1),
        };
        let number = number.filter(|number| *number <= last).ok_or("the block has no such address")?;
        self.address(self.first + number)
    }

    /// A part with so many bits more, by its number.
    fn part(self, more: usize, number: u128) -> Result<Self, String> {
        let more = u32::try_from(more).ok().filter(|more| *more <= self.bits - self.prefix);
        let more = more.ok_or("the block has not that many bits left")?;
        let part = Self { prefix: self.prefix + more, ..self };
        if more < 128 && number >> more != 0 {
            return Err("the block has no such part".to_owned());
        }
        Ok(Self { first: self.first + number * (part.last_host().wrapping_add(1)).max(1), ..part })
    }
}

/// Parts one behind the other, each with its own number of bits more.
fn subnets(arguments: &Arguments<'_>) -> Result<Value, String> {
    let block = AddressBlock::read(&arguments.text(0)?)?;
    let (mut parts, mut next) = (Vec::new(), block.first);
    for at in 1..arguments.values.len() {
        let part = block.part(arguments.count(at)?, 0)?;
        let size = part.last_host();
        // A part begins where its own bits are zero.
        let first = next.checked_add(size).map(|end| end & !size);
        let first =
            first.filter(|first| first - block.first <= block.last_host() - size.min(block.last_host()));
        let first = first.ok_or("the block has no room for all of its parts")?;
        parts.push(Value::text(AddressBlock { first, ..part }.to_string()));
        next = first.saturating_add(size).saturating_add(1);
    }
    Ok(Value::list(parts))
}
