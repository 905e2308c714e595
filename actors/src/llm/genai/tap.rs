//! Hands every frame to the [`Wire`] before genai makes anything of it.

use super::super::providers::ProviderKind;
use super::wire::Wire;
use ::genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(super) struct Tap {
    frames: AtomicUsize,
    wire: Mutex<Wire>,
}

impl Tap {
    pub(super) fn new(kind: ProviderKind) -> Self {
        Self { frames: AtomicUsize::new(0), wire: Mutex::new(Wire::new(kind)) }
    }

    /// How many frames have arrived, those without data included.
    pub(super) fn frames(&self) -> usize {
        self.frames.load(Ordering::Relaxed)
    }

    /// Looks at what was read so far, or takes it.
    pub(super) fn wire<T>(&self, look: impl FnOnce(&mut Wire) -> T) -> T {
        look(&mut self.wire.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ChatFrameSink for Tap {
    fn on_frame(&self, _context: &FrameCtx, frame: RawFrameRef<'_>) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.wire(|wire| wire.frame(frame.event, frame.data));
    }
}
