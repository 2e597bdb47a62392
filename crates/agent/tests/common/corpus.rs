//! Malicious archives: unpacking one may put nothing outside its target, and take nothing in from there.

/// One of them.
pub struct Hostile {
    pub name: &'static str,
    pub tar: Vec<u8>,
    /// It must be refused as a whole; the others may have something honest in them, or lead nowhere where they are unpacked.
    pub refused: bool,
}

impl Hostile {
    /// The same of a layer of an image, whose root is where it is unpacked: a path from there on leads nowhere else. Its
    /// devices are left out, a pipe leads to nobody outside of its container, and a hard link that a file replaces is never
    /// made.
    #[allow(dead_code)]
    pub fn refused_as_layer(&self) -> bool {
        let kept_harmless = ["a character device", "a block device", "a pipe", "a hard link through a link"];
        let is_kept_harmless = kept_harmless.contains(&self.name);
        self.refused && !self.name.starts_with("absolute") && !is_kept_harmless
    }
}

const FILE: u8 = b'0';
const HARD: u8 = b'1';
const SOFT: u8 = b'2';
const DIR: u8 = b'5';

/// A header and what follows it, as nobody's tar would write them.
struct Entry {
    header: [u8; 512],
    body: Vec<u8>,
}

/// A number as headers have it.
fn octal(header: &mut [u8], value: u64) {
    let digits = format!("{value:0width$o}", width = header.len() - 1);
    header[..digits.len()].copy_from_slice(digits.as_bytes());
}

fn entry(path: &str, kind: u8, link: &str, body: &[u8]) -> Entry {
    let mut header = [0; 512];
    header[..path.len()].copy_from_slice(path.as_bytes());
    octal(&mut header[100..108], 0o6777);
    octal(&mut header[108..116], 0);
    octal(&mut header[116..124], 0);
    octal(&mut header[124..136], body.len() as u64);
    octal(&mut header[136..148], 0);
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header[257..265].copy_from_slice(b"ustar\x0000");
    Entry { header, body: body.to_vec() }
}

impl Entry {
    /// Writes over a part of the header; its sum is right all the same.
    fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        self.header[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn bytes(mut self) -> Vec<u8> {
        self.header[148..156].fill(b' ');
        let sum: u64 = self.header.iter().map(|&byte| u64::from(byte)).sum();
        octal(&mut self.header[148..155], sum);
        let mut bytes = self.header.to_vec();
        bytes.extend_from_slice(&self.body);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }
}

fn file(path: &str) -> Entry {
    entry(path, FILE, "", b"planted")
}

fn link(path: &str, to: &str) -> Entry {
    entry(path, SOFT, to, b"")
}

fn hard(path: &str, to: &str) -> Entry {
    entry(path, HARD, to, b"")
}

fn dir(path: &str) -> Entry {
    entry(path, DIR, "", b"")
}

/// What extends the header that follows, of another tar's making.
fn long(kind: u8, value: &str) -> Entry {
    entry("././@LongLink", kind, "", format!("{value}\0").as_bytes())
}

/// The same as POSIX has it: records of their length, a name and a value.
fn pax(records: &[(&str, &str)]) -> Entry {
    let record = |(name, value): &(&str, &str)| {
        let rest = format!(" {name}={value}\n");
        let length = (1..).find(|length: &usize| length.to_string().len() + rest.len() == *length);
        format!("{}{rest}", length.expect("some length"))
    };
    entry("pax", b'x', "", records.iter().map(record).collect::<String>().as_bytes())
}

fn archive(entries: Vec<Entry>) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.into_iter().flat_map(Entry::bytes).collect();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// All of them. `outside` is an absolute path that must stay as it is, to which links lead, and of which `up` is another name,
/// relative to where they are unpacked.
pub fn all(outside: &str, up: &str) -> Vec<Hostile> {
    let inside = |name: &str| format!("{outside}/{name}");
    let above = |name: &str| format!("{up}/{name}");
    let bad = |name, entries| Hostile { name, tar: archive(entries), refused: true };
    let tame = |name, entries| Hostile { name, tar: archive(entries), refused: false };
    let raw = |name, tar| Hostile { name, tar, refused: true };
    let cut = |at: usize| archive(vec![entry("file", FILE, "", &[b'x'; 2_000])])[..at].to_vec();
    let deep = "d/".repeat(40);
    vec![
        // Paths.
        bad("up", vec![file(&above("x"))]),
        bad("absolute", vec![file(&inside("x"))]),
        bad("up in the middle", vec![file(&format!("a/../{}", above("x")))]),
        bad("up behind a dot", vec![file(&format!("./{}", above("x")))]),
        bad("up behind a directory that is there", vec![dir("a/"), file(&format!("a/../{}", above("x")))]),
        bad("up alone", vec![entry("..", FILE, "", b"x")]),
        bad("up as a directory", vec![dir("../")]),
        bad("absolute by two slashes", vec![file("//etc/x")]),
        bad("the root", vec![file("/")]),
        bad("up at the end", vec![file("a/..")]),
        bad("up by a long name", vec![long(b'L', &above("x")), file("cut")]),
        bad("absolute by a long name", vec![long(b'L', &inside("x")), file("cut")]),
        bad("up by pax", vec![pax(&[("path", &above("x"))]), file("cut")]),
        bad("absolute by pax", vec![pax(&[("path", &inside("x"))]), file("cut")]),
        bad("up by two names", vec![pax(&[("path", "fine"), ("path", &above("x"))]), file("cut")]),
        bad("up by the prefix of ustar", vec![file("x").with(345, up.as_bytes())]),
        bad("far up", vec![file(&format!("{}etc/x", "../".repeat(30)))]),
        bad("down and up", vec![file(&format!("{}{}x", "a/".repeat(10), "../".repeat(14)))]),
        tame("a backslash is a letter", vec![file("..\\x")]),
        tame("dots that are a name", vec![file(".../x"), file("..x")]),
        // Links and what goes through them.
        tame("a link out", vec![link("out", outside)]),
        tame("through a link out", vec![link("out", outside), file("out/x")]),
        tame("through a link up", vec![link("out", up), file("out/x")]),
        tame("through two links", vec![link("a", outside), link("b", "a"), file("b/x")]),
        tame("through a link in a link", vec![link("a", "."), link("a/b", outside), file("a/b/x")]),
        tame("through a link to the root", vec![link("a", "/"), file(&format!("a{}", inside("x")))]),
        tame("through the process", vec![link("a", "/proc/self/cwd"), file("a/x")]),
        tame("through an open file of the process", vec![link("a", "/proc/self/fd/3"), file("a/x")]),
        tame("through its root", vec![link("a", "/proc/1/root"), file(&format!("a{}", inside("x")))]),
        tame("a directory through a link", vec![link("out", outside), dir("out/made/")]),
        tame("a link through a link", vec![link("out", outside), link("out/made", "/")]),
        tame("a file over a link", vec![link("x", &inside("kept")), file("x")]),
        tame("a directory over a link", vec![link("d", outside), dir("d/"), file("d/x")]),
        tame("a link over a directory", vec![dir("d/"), link("d", outside), file("d/x")]),
        tame("a link over an empty directory, by a slash", vec![dir("d/"), link("d/", outside), file("d/x")]),
        tame("a link that goes round", vec![link("a", "b"), link("b", "a"), file("a/x")]),
        tame("a link to itself", vec![link("a", "a"), file("a/x")]),
        tame("a mode through a link", vec![link("d", outside), dir("d")]),
        tame("a long link out", vec![long(b'K', outside), link("out", "cut"), file("out/x")]),
        tame("a link out by pax", vec![pax(&[("linkpath", outside)]), link("out", "cut"), file("out/x")]),
        bad("a link to nothing", vec![link("a", "")]),
        // Hard links.
        bad("a hard link out", vec![hard("x", &inside("kept"))]),
        bad("a hard link up", vec![hard("x", &above("kept"))]),
        bad("a hard link by a long name", vec![long(b'K', &above("kept")), hard("x", "cut")]),
        bad("a hard link by pax", vec![pax(&[("linkpath", &inside("kept"))]), hard("x", "cut")]),
        bad("a hard link through a link", vec![link("out", outside), hard("x", "out/kept"), file("x")]),
        tame(
            "a hard link to a link, and over it",
            vec![link("a", &inside("kept")), hard("b", "a"), file("b")],
        ),
        bad("a hard link to nothing", vec![hard("a", "b")]),
        bad("a hard link to a directory", vec![dir("a/"), hard("b", "a")]),
        // Kinds.
        bad(
            "a character device",
            vec![entry("mem", b'3', "", b"").with(329, b"0000001\0").with(337, b"0000001\0")],
        ),
        bad(
            "a block device",
            vec![entry("disk", b'4', "", b"").with(329, b"0000376\0").with(337, b"0000000\0")],
        ),
        bad("a pipe", vec![entry("pipe", b'6', "", b"")]),
        bad("a volume's name", vec![entry("name", b'V', "", b"")]),
        bad("a part of a file", vec![entry("part", b'M', "", b"x")]),
        bad("a sparse file", vec![entry("holes", b'S', "", b"x")]),
        bad("a kind that nobody knows", vec![entry("x", b'Z', "", b"x")]),
        tame("a file that runs as its owner", vec![file("su")]),
        // Sizes, and what is not whole.
        bad("a size beyond all", vec![file("x").with(124, &[0xff; 12])]),
        bad(
            "a negative size",
            vec![file("x").with(124, &[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])],
        ),
        bad("a size in words", vec![file("x").with(124, b"all of it!!\0")]),
        bad("a size that is not there", vec![file("x").with(124, b"77777777777\0")]),
        bad("an owner beyond all", vec![file("x").with(108, &[0xff; 8])]),
        bad("a mode in words", vec![file("x").with(100, b"rwxrwx!\0")]),
        bad("a size by pax", vec![pax(&[("size", "18446744073709551615")]), file("x")]),
        raw("cut in the header", cut(300)),
        raw("cut in the file", cut(1_500)),
        raw("a sum that is wrong", {
            let mut bytes = archive(vec![file("x")]);
            bytes[150] ^= 1;
            bytes
        }),
        raw("noise", (0..4_096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
        bad("a header that is too long", vec![long(b'L', &"x".repeat(2 << 20)), file("x")]),
        bad("a link's header that is too long", vec![long(b'K', &"x".repeat(2 << 20)), link("x", "y")]),
        bad("pax that is too long", vec![pax(&[("comment", &"x".repeat(2 << 20))]), file("x")]),
        bad("pax without an end", vec![entry("pax", b'x', "", b"99999 path=x"), file("x")]),
        bad("a name that is too long", vec![long(b'L', &"x".repeat(300)), file("x")]),
        bad("a path that is too long", vec![long(b'L', &"x/".repeat(4_000)), file("x")]),
        tame(
            "deep",
            vec![
                file(&format!("{deep}x")),
                link(&format!("{deep}up"), outside),
                file(&format!("{deep}up/x")),
            ],
        ),
        // What layers say is not there any more.
        bad("a whiteout of nothing", vec![file("a/.wh.")]),
        bad("a whiteout of itself", vec![file("a/.wh..")]),
        bad("a whiteout of what it lies in", vec![file("a/.wh...")]),
        tame("a whiteout through a link", vec![link("out", outside), file("out/.wh.kept")]),
        tame("all of a directory through a link", vec![link("out", outside), file("out/.wh..wh..opq")]),
    ]
}
