//! The user that `--user` names.

use std::fs;

use rustix::process::{Gid, Uid};

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name that was passed to `--user`.
    pub name: String,
    /// User id of passwd(5).
    pub uid: Uid,
    /// Main group of the user.
    pub gid: Gid,
    /// Other groups of which the user is a member.
    pub groups: Vec<Gid>,
}

/// Returns the user with this name. The user must be in /etc/passwd. A static program cannot
/// load NSS modules, so it does not find users of LDAP or SSSD.
///
/// # Errors
/// If there is no such user, or a file cannot be read. The error is a sentence with the reason.
pub fn parse(name: &str) -> Result<Account, String> {
    let read = |file| fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
    find(name, &read("/etc/passwd")?, &read("/etc/group")?)
        .ok_or_else(|| format!("/etc/passwd of this machine has no user `{name}`"))
}

/// Returns the user with this name, from the contents of passwd(5) and group(5); `None` if there is
/// none.
fn find(name: &str, users: &str, groups: &str) -> Option<Account> {
    let is_it = |line: &&str| line.split(':').next() == Some(name);
    let fields: Vec<&str> = users.lines().find(is_it)?.split(':').collect();
    let is_member = |members: &str| members.split(',').any(|member| member == name);
    let of_group = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        is_member(fields.get(3)?).then(|| fields[2].parse().ok().map(Gid::from_raw))?
    };
    Some(Account {
        name: name.to_owned(),
        uid: Uid::from_raw(fields.get(2)?.parse().ok()?),
        gid: Gid::from_raw(fields.get(3)?.parse().ok()?),
        groups: groups.lines().filter_map(of_group).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100::/home/ann:/bin/sh\nbad:x\n";
    const GROUPS: &str = "root:x:0:\nkvm:x:107:bob,ann\nannes:x:7:annette\nusers:x:100:\n";

    #[test]
    fn a_user_has_its_groups_and_no_others() {
        let ann = Account {
            name: "ann".to_owned(),
            uid: Uid::from_raw(1000),
            gid: Gid::from_raw(100),
            groups: vec![Gid::from_raw(107)],
        };
        assert_eq!(find("ann", USERS, GROUPS), Some(ann));
        for nobody in ["an", "bad", "", "ann:x"] {
            assert_eq!(find(nobody, USERS, GROUPS), None, "{nobody}");
        }
    }
}
