//! The time axis above the ladder, with a bar from each call to its reply.

use super::CapturedConnection;
use super::call::Call;
use super::ladder::Selection;

/// The start and end of the axis, in pixels.
const LEFT: u64 = 190;
const RIGHT: u64 = 1130;
const ROWS: usize = 4;
const TICKS: u64 = 12;
/// The maximum number of bars: the axis has no room for more.
const BARS_MAX: usize = 4096;

pub(super) struct Scale {
    pub(super) ticks: Vec<Tick>,
    pub(super) bars: Vec<Bar>,
    /// The number of calls without a bar.
    pub(super) more: usize,
}

pub(super) struct Tick {
    pub(super) x: u64,
    pub(super) label: String,
}

pub(super) struct Bar {
    pub(super) x: u64,
    pub(super) width: u64,
    /// The row below the axis, counted from 0. Consecutive calls are in different rows.
    pub(super) row: usize,
    pub(super) class: &'static str,
    pub(super) title: String,
}

impl Scale {
    pub(super) fn of(connection: &CapturedConnection, selection: &Selection) -> Self {
        let span = connection.end.saturating_sub(connection.start).max(1);
        let x = |time| x(time, span);
        let step = step(span);
        let ticks = (0..=TICKS).map(|at| at.saturating_mul(step)).take_while(|time| *time <= span);
        let ticks = ticks.map(|time| Tick { x: x(time), label: label(time) }).collect();
        let bar = |(at, call): (usize, &Call)| {
            let start = call.time.saturating_sub(connection.start);
            let end = call.latency().map_or(span, |latency| start.saturating_add(latency));
            let (left, right) = (x(start), x(end));
            let failed = call.has_failed() || call.reply.is_none();
            Bar {
                x: left,
                width: right.saturating_sub(left).max(1),
                row: at % ROWS,
                class: if failed { "problem" } else { "call" },
                title: format!("#{}", call.number),
            }
        };
        let calls = selection.calls(connection);
        let bars: Vec<Bar> = calls.enumerate().take(BARS_MAX).map(bar).collect();
        let more = selection.calls(connection).count().saturating_sub(bars.len());
        Scale { ticks, bars, more }
    }
}

/// Returns the position of a time on an axis that covers the time from 0 to `span`.
fn x(time: u64, span: u64) -> u64 {
    let inside = u128::from(time.min(span)).saturating_mul((RIGHT - LEFT).into());
    LEFT.saturating_add(u64::try_from(inside / u128::from(span)).unwrap_or(0))
}

/// Returns the smallest step that yields at most [`TICKS`] ticks in a time span. A step is 1, 2 or 5 times a
/// power of ten.
fn step(span: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for step in [1, 2, 5].map(|digit: u64| digit.saturating_mul(power)) {
            if span / step < TICKS {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

fn label(nanoseconds: u64) -> String {
    let (unit, name) = match nanoseconds {
        0 => return "0".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let tenths = (nanoseconds % unit).saturating_mul(10) / unit;
    let tenths = if tenths == 0 { String::new() } else { format!(".{tenths}") };
    format!("{}{tenths} {name}", nanoseconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_few_ticks_at_round_times() {
        assert_eq!([9, 12, 23, 24, 59, 60, 100, 1_234_567].map(step), [1, 2, 2, 5, 5, 10, 10, 200_000]);
        for span in [1, 7, 999, 1_000_000, 86_400_000_000_000, u64::MAX] {
            assert!(span / step(span) < TICKS, "{span}");
        }
    }

    #[test]
    fn positions_are_proportional_to_times() {
        let middle = LEFT.midpoint(RIGHT);
        for span in [100, u64::MAX - 1] {
            assert_eq!([0, span / 2, span, u64::MAX].map(|time| x(time, span)), [LEFT, middle, RIGHT, RIGHT]);
        }
    }

    #[test]
    fn labels_have_units() {
        let labels = [0, 500, 200_000, 1_500_000, 20_000_000, 5_000_000_000].map(label);
        assert_eq!(labels, ["0", "500 ns", "200 us", "1.5 ms", "20 ms", "5 s"]);
    }
}
