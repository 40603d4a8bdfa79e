//! Converts a list of system calls to the program that the kernel runs for each call (seccomp(2)).
//!
//! Since Linux 5.11, the kernel runs a new program once for every number. It remembers the calls
//! that are allowed for any arguments, and does not run the program for them later. With one
//! comparison per call, this takes a millisecond, most of the start-up time of a command. So the
//! program finds a number by binary search.

use std::collections::BTreeMap;

use libc::{
    __u32, BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W,
    ENOSYS, EPERM, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS,
};
use seccompiler::sock_filter;

/// Answer to each call, by the call's number. Calls without an entry fail with EPERM.
pub type Calls = BTreeMap<u32, CallAnswer>;

/// Answer to a call.
#[derive(Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// The kernel makes the call.
    Allowed,
    /// The kernel makes the call if one of these rules is true. Otherwise the call fails with
    /// EPERM.
    Where(Vec<FilterRule>),
    /// The call fails with ENOSYS, as if this kernel did not have it.
    Absent,
}

/// A rule: conditions that must all be true.
pub type FilterRule = Vec<ArgumentCondition>;

/// Condition on the lower 32 bits of an argument: its bits in `mask` must equal `value`.
#[derive(Debug, PartialEq, Eq)]
pub struct ArgumentCondition {
    pub argument: u32,
    pub mask: u32,
    pub value: u32,
}

/// AUDIT_ARCH_X86_64 of linux/audit.h. It consists of the machine, 64 bits and little endian.
const ARCHITECTURE: u32 = 62 | 0x8000_0000 | 0x4000_0000;
/// Offset in `struct seccomp_data` of the number of the call. The next two constants are the
/// offsets of the architecture and of the arguments.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;
const REFUSED: u32 = SECCOMP_RET_ERRNO | EPERM.cast_unsigned();
const ABSENT: u32 = SECCOMP_RET_ERRNO | ENOSYS.cast_unsigned();

/// A range of numbers with the same answer: the first number, and the answer. The range ends before
/// the next entry. `None`: the call fails with EPERM.
type Stretch<'a> = (u32, Option<&'a CallAnswer>);

/// Returns the program that gives these answers. All other calls fail with EPERM. A call on another
/// architecture ends the process.
pub fn program(calls: &Calls) -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE_AT),
        jump(BPF_JEQ, ARCHITECTURE, 1, 0),
        end(SECCOMP_RET_KILL_PROCESS),
        load(NUMBER_AT),
    ];
    program.extend(search(&stretches(calls)));
    program
}

fn stretches(calls: &Calls) -> Vec<Stretch<'_>> {
    let mut all: Vec<Stretch<'_>> = vec![(0, None)];
    for (&number, answer) in calls {
        for (start, verdict) in [(number, Some(answer)), (number + 1, None)] {
            all.pop_if(|last| last.0 == start);
            if all.last().is_none_or(|last| last.1 != verdict) {
                all.push((start, verdict));
            }
        }
    }
    all
}

fn search(stretches: &[Stretch<'_>]) -> Vec<sock_filter> {
    if let [(_, verdict)] = stretches {
        return judge(*verdict);
    }
    let (below, above) = stretches.split_at(stretches.len() / 2);
    let below = search(below);
    let mut program = vec![jump(BPF_JGE, above[0].0, skip(&below), 0)];
    program.extend(below);
    program.extend(search(above));
    program
}

fn judge(verdict: Option<&CallAnswer>) -> Vec<sock_filter> {
    match verdict {
        None => vec![end(REFUSED)],
        Some(CallAnswer::Allowed) => vec![end(SECCOMP_RET_ALLOW)],
        Some(CallAnswer::Absent) => vec![end(ABSENT)],
        Some(CallAnswer::Where(rules)) => {
            let mut program: Vec<_> = rules.iter().flat_map(|rule| allow_where(rule)).collect();
            program.push(end(REFUSED));
            program
        }
    }
}

/// Returns instructions that allow the call if all conditions are true. Otherwise the program
/// continues after these instructions.
fn allow_where(rule: &[ArgumentCondition]) -> Vec<sock_filter> {
    let mut program = vec![end(SECCOMP_RET_ALLOW)];
    for condition in rule.iter().rev() {
        let look = [
            load(ARGUMENTS_AT + 8 * condition.argument),
            statement(BPF_ALU | BPF_AND | BPF_K, condition.mask),
            jump(BPF_JEQ, condition.value, 0, skip(&program)),
        ];
        program.splice(0..0, look);
    }
    program
}

/// Returns the distance of a jump over these instructions. It must fit into one byte. The lists
/// here are much shorter, and a test builds all of them.
fn skip(program: &[sock_filter]) -> u8 {
    program.len().try_into().expect("fewer than 256 steps")
}

fn load(at: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, at)
}

fn end(verdict: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, verdict)
}

fn statement(code: __u32, k: u32) -> sock_filter {
    instruction(code, k, 0, 0)
}

/// Returns a jump over `jt` instructions if the comparison is true, and over `jf` instructions if
/// not.
fn jump(comparison: __u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    instruction(BPF_JMP | comparison | BPF_K, k, jt, jf)
}

fn instruction(code: __u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = code as u16;
    sock_filter { code, jt, jf, k }
}

/// Runs the program as the kernel does. Returns whether the call is allowed, and the number of
/// executed instructions.
#[cfg(test)]
pub fn run(program: &[sock_filter], number: u32, arguments: [u64; 6]) -> (bool, u32) {
    let mut data = [number, ARCHITECTURE, 0, 0].map(u32::to_le_bytes).concat();
    data.extend(arguments.map(u64::to_le_bytes).concat());
    let (mut loaded, mut at, mut steps) = (0, 0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        let code = __u32::from(code);
        let mut holds = |holds: bool| at += usize::from(if holds { jt } else { jf });
        steps += 1;
        if code == BPF_RET | BPF_K {
            assert!([SECCOMP_RET_ALLOW, REFUSED, ABSENT].contains(&k));
            return (k == SECCOMP_RET_ALLOW, steps);
        } else if code == BPF_LD | BPF_W | BPF_ABS {
            let bytes = data[k as usize..][..4].try_into().expect("4 of them");
            loaded = u32::from_le_bytes(bytes);
        } else if code == BPF_ALU | BPF_AND | BPF_K {
            loaded &= k;
        } else if code == BPF_JMP | BPF_JEQ | BPF_K {
            holds(loaded == k);
        } else {
            assert_eq!(code, BPF_JMP | BPF_JGE | BPF_K);
            holds(loaded >= k);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn where_first(mask: u32, value: u32) -> FilterRule {
        vec![ArgumentCondition {
            argument: 0,
            mask,
            value,
        }]
    }

    #[test]
    fn what_is_on_the_list_is_allowed_and_no_neighbour() {
        for numbers in [&[][..], &[0], &[0, 1, 2], &[3, 5, 6, 9], &[1, 470]] {
            let calls: Calls = numbers
                .iter()
                .map(|number| (*number, CallAnswer::Allowed))
                .collect();
            let program = program(&calls);
            // The last numbers are those of the x32 calls, which begin at 0x4000_0000.
            for number in (0..600).chain(0x4000_0000..0x4000_0200).chain([u32::MAX]) {
                let allowed = run(&program, number, [0; 6]).0;
                assert_eq!(
                    allowed,
                    numbers.contains(&number),
                    "{number} of {numbers:?}"
                );
            }
        }
    }

    #[test]
    fn one_of_the_rules_has_to_hold_and_all_of_its_conditions() {
        let second = ArgumentCondition {
            argument: 1,
            mask: u32::MAX,
            value: 20,
        };
        let mut both = where_first(u32::MAX, 0);
        both.push(second);
        let calls = Calls::from([(7, CallAnswer::Where(vec![where_first(u32::MAX, 42), both]))]);
        let program = program(&calls);
        for (first, second, is_allowed) in [
            (42, 0, true),
            (0, 20, true),
            // The kernel uses only the lower half of an `int` argument, so the upper half may have
            // any value.
            (1 << 32 | 42, 0, true),
            (0, 0, false),
            (1, 20, false),
        ] {
            let arguments = [first, second, 0, 0, 0, 0];
            assert_eq!(
                run(&program, 7, arguments).0,
                is_allowed,
                "{first}, {second}"
            );
            assert!(!run(&program, 6, arguments).0 && !run(&program, 8, arguments).0);
        }
    }

    #[test]
    fn a_mask_leaves_out_what_does_not_matter() {
        let calls = Calls::from([(7, CallAnswer::Where(vec![where_first(0b11, 0)]))]);
        let program = program(&calls);
        for (first, is_allowed) in [(0, true), (0b100, true), (0b101, false), (0b10, false)] {
            assert_eq!(run(&program, 7, [first; 6]).0, is_allowed, "{first}");
        }
    }

    /// On another architecture, the same number means another call.
    #[test]
    fn another_architecture_ends_the_process() {
        let program = program(&Calls::new());
        let refuse = jump(BPF_JEQ, ARCHITECTURE, 1, 0);
        assert_eq!(program[1], refuse);
        assert_eq!(program[2], end(SECCOMP_RET_KILL_PROCESS));
    }
}
