//! Who a container runs as, by the files of its image: passwd(5) and group(5).

/// Groups besides a user's first.
const GROUPS_MAX: usize = 64;

/// A user of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Others that it belongs to.
    pub(super) groups: Vec<u32>,
    pub(super) home: String,
}

/// Finds `[NAME|UID][:GROUP|GID]`; without a user it is root. Files are read only if they are needed to know.
///
/// # Errors
/// Why there is none, in words.
pub(super) fn find(
    user_spec: &str,
    passwd: impl FnOnce() -> Result<String, String>,
    group: impl FnOnce() -> Result<String, String>,
) -> Result<User, String> {
    let (user, own_group) = match user_spec.split_once(':') {
        None => (user_spec, None),
        Some((user, group)) => (user, Some(group).filter(|group| !group.is_empty())),
    };
    let user = if user.is_empty() { "0" } else { user };
    let number = user.parse::<u32>().ok();
    let passwd = match passwd() {
        Ok(text) => text,
        // A number needs no file.
        Err(_) if number.is_some() => String::new(),
        Err(why) => return Err(why),
    };
    let entry = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| {
        fields.len() >= 4 && (fields[0] == user || number.is_some_and(|uid| fields[2].parse() == Ok(uid)))
    });
    let (name, uid, gid, home) = match (&entry, number) {
        (Some(fields), _) => {
            let uid = fields[2].parse().map_err(|_| format!("/etc/passwd has no number for {user:?}"))?;
            let gid = fields[3].parse().map_err(|_| format!("/etc/passwd has no group for {user:?}"))?;
            (fields[0], uid, gid, fields.get(5).copied().unwrap_or_default())
        }
        (None, Some(uid)) => ("", uid, 0, ""),
        (None, None) => return Err(format!("its image has no user {user:?} in /etc/passwd")),
    };
    let home = if home.is_empty() { "/" } else { home }.to_owned();
    let (gid, groups) = match own_group {
        Some(own) => (group_id(own, group)?, Vec::new()),
        None if name.is_empty() => (gid, Vec::new()),
        None => (gid, groups_of(name, gid, &group().unwrap_or_default())),
    };
    Ok(User { uid, gid, groups, home })
}

fn group_id(name_or_id: &str, group: impl FnOnce() -> Result<String, String>) -> Result<u32, String> {
    if let Ok(gid) = name_or_id.parse() {
        return Ok(gid);
    }
    let text = group()?;
    let found = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut found =
        found.filter(|fields| fields[0] == name_or_id).filter_map(|fields| fields.get(2)?.parse().ok());
    found.next().ok_or_else(|| format!("its image has no group {name_or_id:?} in /etc/group"))
}

fn groups_of(name: &str, first: u32, group: &str) -> Vec<u32> {
    let of = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let gid = fields.get(2)?.parse().ok()?;
        let is_member = fields.get(3)?.split(',').any(|member| member.trim() == name);
        (is_member && gid != first).then_some(gid)
    };
    group.lines().filter_map(of).take(GROUPS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:\nodd:x:y:z::\n";
    const GROUP: &str = "root:x:0:\nwww-data:x:33:\nssl:x:101:root,www-data\n";

    fn check(user_spec: &str, expected: Result<(u32, u32, &[u32], &str), &str>) {
        let found = find(user_spec, || Ok(PASSWD.into()), || Ok(GROUP.into()));
        let expected = expected.map(|(uid, gid, groups, home)| User {
            uid,
            gid,
            groups: groups.into(),
            home: home.into(),
        });
        assert_eq!(found, expected.map_err(str::to_owned), "{user_spec}");
    }

    #[test]
    fn users_are_names_or_numbers() {
        check("", Ok((0, 0, &[101], "/root")));
        check("www-data", Ok((33, 33, &[101], "/var/www")));
        check("33", Ok((33, 33, &[101], "/var/www")));
        check("1000", Ok((1000, 0, &[], "/")));
        check("1000:5", Ok((1000, 5, &[], "/")));
        check(":500", Ok((0, 500, &[], "/root")));
        check(":ssl", Ok((0, 101, &[], "/root")));
        check(":", Ok((0, 0, &[101], "/root")));
        check("www-data:ssl", Ok((33, 101, &[], "/var/www")));
        check("ghost", Err("its image has no user \"ghost\" in /etc/passwd"));
        check("0:ghost", Err("its image has no group \"ghost\" in /etc/group"));
        check("odd", Err("/etc/passwd has no number for \"odd\""));
        check("-1", Err("its image has no user \"-1\" in /etc/passwd"));
    }

    #[test]
    fn a_number_needs_no_files() {
        let none = || Err("none".to_owned());
        assert_eq!(find("7:8", none, none).map(|user| (user.uid, user.gid)), Ok((7, 8)));
        assert_eq!(find("app", none, none), Err("none".to_owned()));
    }
}
