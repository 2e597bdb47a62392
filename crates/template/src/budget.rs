//! What a rendering has cost so far.

use crate::limits::{BYTES_A_STEP, ELEMENT_BYTES, STEPS_MAX, VALUE_BYTES_MAX};

/// What is left of a rendering's limits.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: u64,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { steps: STEPS_MAX, bytes: VALUE_BYTES_MAX }
    }
}

impl Budget {
    /// Counts steps.
    ///
    /// # Errors
    /// When there were too many.
    pub fn steps(&mut self, steps: u64) -> Result<(), String> {
        self.steps = self.steps.checked_sub(steps).ok_or_else(|| {
            format!("rendering takes more than {STEPS_MAX} steps, the limit of one template")
        })?;
        Ok(())
    }

    /// Counts bytes that are read.
    ///
    /// # Errors
    /// When there were too many.
    pub fn read(&mut self, bytes: usize) -> Result<(), String> {
        self.steps((bytes / BYTES_A_STEP) as u64)
    }

    /// Counts what is about to be made: bytes of text, and elements of lists and maps.
    ///
    /// # Errors
    /// When it would be too much.
    pub fn make(&mut self, bytes: usize, elements: usize) -> Result<(), String> {
        let bytes = bytes.saturating_add(elements.saturating_mul(ELEMENT_BYTES));
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| {
            format!("rendering makes values of more than {VALUE_BYTES_MAX} bytes, the limit of one template")
        })?;
        Ok(())
    }
}
