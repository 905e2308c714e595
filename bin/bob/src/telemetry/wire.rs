//! Requests of OTLP in the encoding of Protocol Buffers: the few messages that are sent, by their field numbers.

use super::metrics::{Form, Series};
use super::spans::{Span, Value};
use bob_messages::Millis;

const SCOPE: &str = "bob";
const CUMULATIVE: u64 = 2;
const FAILED: u64 = 2;

/// A request for `/v1/traces`.
pub(super) fn traces(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    request(resource, |scope| spans.iter().for_each(|one| scope.message(2, |out| span(out, one))))
}

/// A request for `/v1/metrics`: the series counted since `since`.
pub(super) fn metrics(resource: &[(String, String)], all: &[Series], since: Millis, now: Millis) -> Vec<u8> {
    request(resource, |scope| all.iter().for_each(|one| scope.message(2, |out| metric(out, one, since, now))))
}

fn request(resource: &[(String, String)], content: impl FnOnce(&mut Out)) -> Vec<u8> {
    let mut out = Out::default();
    out.message(1, |out| {
        out.message(1, |out| resource.iter().for_each(|(key, value)| text_attribute(out, 1, key, value)));
        out.message(2, |out| {
            out.message(1, |out| {
                out.text(1, SCOPE);
                out.text(2, env!("CARGO_PKG_VERSION"));
            });
            content(out);
        });
    });
    out.0
}

fn span(out: &mut Out, span: &Span) {
    out.bytes(1, &span.trace);
    out.bytes(2, &span.id);
    if let Some(state) = &span.state {
        out.text(3, state);
    }
    if let Some(parent) = &span.parent {
        out.bytes(4, parent);
    }
    out.text(5, &span.name);
    out.number(6, span.kind as u64);
    out.fixed(7, nanos(span.start));
    out.fixed(8, nanos(span.end.max(span.start)));
    for (key, value) in &span.attributes {
        match value {
            Value::Text(text) => text_attribute(out, 9, key, text),
            Value::Number(number) => out.message(9, |out| {
                out.text(1, key);
                out.message(2, |out| out.number(3, *number));
            }),
            Value::Amount(amount) => out.message(9, |out| {
                out.text(1, key);
                out.message(2, |out| out.fixed(4, amount.to_bits()));
            }),
            Value::Texts(texts) => out.message(9, |out| {
                out.text(1, key);
                out.message(2, |out| {
                    out.message(5, |out| texts.iter().for_each(|one| out.message(1, |out| out.text(1, one))));
                });
            }),
        }
    }
    if span.is_error {
        out.message(15, |out| out.number(3, FAILED));
    }
    out.fixed32(16, span.flags.bits());
}

fn metric(out: &mut Out, series: &Series, since: Millis, now: Millis) {
    out.text(1, series.name);
    out.text(3, series.unit);
    let times = |out: &mut Out| {
        out.fixed(2, nanos(since));
        out.fixed(3, nanos(now));
    };
    let attributes = |out: &mut Out, field: u64| {
        series.attributes.iter().for_each(|(key, value)| text_attribute(out, field, key, value));
    };
    if let Form::Histogram(bounds) = series.form {
        out.message(9, |out| {
            out.message(1, |out| {
                times(out);
                out.fixed(4, series.count);
                out.fixed(5, series.sum.to_bits());
                out.bytes(6, &series.buckets.iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<_>>());
                out.bytes(7, &bounds.iter().flat_map(|bound| bound.to_le_bytes()).collect::<Vec<_>>());
                attributes(out, 9);
            });
            out.number(2, CUMULATIVE);
        });
        return;
    }
    out.message(7, |out| {
        out.message(1, |out| {
            times(out);
            match series.form {
                Form::Sum => out.fixed(4, series.sum.to_bits()),
                Form::Count | Form::Histogram(_) => out.fixed(6, series.count),
            }
            attributes(out, 7);
        });
        out.number(2, CUMULATIVE);
        out.number(3, 1);
    });
}

fn text_attribute(out: &mut Out, field: u64, key: &str, value: &str) {
    out.message(field, |out| {
        out.text(1, key);
        out.message(2, |out| out.text(1, value));
    });
}

fn nanos(at: Millis) -> u64 {
    u64::try_from(at).unwrap_or(0).saturating_mul(1_000_000)
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn fixed(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | 1);
        self.0.extend(number.to_le_bytes());
    }

    fn fixed32(&mut self, field: u64, number: u32) {
        self.varint(field << 3 | 5);
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u64, content: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        content(&mut inner);
        self.bytes(field, &inner.0);
    }
}
