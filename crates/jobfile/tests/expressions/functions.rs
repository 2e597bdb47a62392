//! What functions come to.

use super::*;

#[test]
fn functions_of_text() {
    check(
        &[
            r#"chomp("a\n\n")"#,
            r#"format("%s is %05.1f%%, %d of %v; %q %-4s|%4s|%x", "it", 3.14159, 7, [1], "q", "l", "r", 255)"#,
            r#"formatlist("%s:%d", ["a", "b"], 80)"#,
            r#"indent(2, "a\nb")"#,
            r#"join(",", ["a", 1, true])"#,
            r#"lower("ÄB")"#,
            r#"regex_replace("v1.2.3", "v(\\d+)\\.(\\d+)", "$2-$1")"#,
            r#"replace("a.b.c", ".", "/")"#,
            r#"split(",", "a,b,")"#,
            r#"strlen("äö")"#,
            r#"strrev("abc")"#,
            r#"substr("hello", -3, 2)"#,
            r#"title("hello big world")"#,
            r#"trim("xxaxx", "x")"#,
            r#"trimprefix("v1", "v")"#,
            r#"trimspace("  a ")"#,
            r#"trimsuffix("a.hcl", ".hcl")"#,
            r#"title("foo_bar baz-o'neil 2nd")"#,
            r#"reverse("abc")"#,
            r#"format("%[2]s %[1]s %[2]s", "a", "b")"#,
            r#"format("%+d % d %x %X %b %o", 5, 5, -255, 255, -5, 8)"#,
            r#"format("%d|%6.2e|%E|%#v|%v", 9007199254740993, 1234.5, 0.00025, "a\"", "a")"#,
            r#"format("%d", 1.5)"#,
            r#"format("%s", "a", "b")"#,
            r#"format("%d")"#,
            r#"format("%y", 1)"#,
            r#"regex_replace("a", "(", "b")"#,
        ],
        expect![[r#"
            chomp("a\n\n") → "a"
            format("%s is %05.1f%%, %d of %v; %q %-4s|%4s|%x", "it", 3.14159, 7, [1], "q", "l", "r", 255) → "it is 003.1%, 7 of [1]; \"q\" l   |   r|ff"
            formatlist("%s:%d", ["a", "b"], 80) → ["a:80","b:80"]
            indent(2, "a\nb") → "a\n  b"
            join(",", ["a", 1, true]) → "a,1,true"
            lower("ÄB") → "äb"
            regex_replace("v1.2.3", "v(\\d+)\\.(\\d+)", "$2-$1") → "2-1.3"
            replace("a.b.c", ".", "/") → "a/b/c"
            split(",", "a,b,") → ["a","b",""]
            strlen("äö") → 2
            strrev("abc") → "cba"
            substr("hello", -3, 2) → "ll"
            title("hello big world") → "Hello Big World"
            trim("xxaxx", "x") → "a"
            trimprefix("v1", "v") → "1"
            trimspace("  a ") → "a"
            trimsuffix("a.hcl", ".hcl") → "a"
            title("foo_bar baz-o'neil 2nd") → "Foo_bar Baz-O'Neil 2nd"
            reverse("abc") → "cba"
            format("%[2]s %[1]s %[2]s", "a", "b") → "b a b"
            format("%+d % d %x %X %b %o", 5, 5, -255, 255, -5, 8) → "+5  5 -ff FF -101 10"
            format("%d|%6.2e|%E|%#v|%v", 9007199254740993, 1234.5, 0.00025, "a\"", "a") → "9007199254740993|1.23e+03|2.500000E-04|\"a\\\"\"|a"
            format("%d", 1.5) → `format`: `%d` needs a whole number, found a number
            format("%s", "a", "b") → `format`: 2 arguments, of which the pattern uses 1
            format("%d") → `format`: there is no argument for `%d`
            format("%y", 1) → `format`: there is no verb `%y`
            regex_replace("a", "(", "b") → `regex_replace`: `(` is not a regular expression
        "#]],
    );
}

#[test]
fn functions_of_collections() {
    check(
        &[
            "chunklist([1, 2, 3], 2)",
            "coalesce(null, \"\", \"b\")",
            "coalescelist([], [1])",
            "compact([\"a\", \"\", null])",
            "concat([1], [2, 3], [])",
            "contains([1, 2], 2)",
            "distinct([2, 1, 2])",
            "element([1, 2, 3], 4)",
            "flatten([1, [2, [3, []]]])",
            "index([\"a\", \"b\"], \"b\")",
            "keys({ b = 1, a = 2 })",
            "length({ a = 1 })",
            "lookup({ a = 1 }, \"b\", 2)",
            "merge({ a = 1, b = 1 }, { b = 2 }, null)",
            "range(3)",
            "range(1, 10, 4)",
            "range(3, 0)",
            "reverse([1, 2])",
            "setintersection([1, 2, 3], [3, 2])",
            "setproduct([1, 2], [\"a\", \"b\"])",
            "setunion([2, 1], [1])",
            "slice([1, 2, 3], 1, 2)",
            "sort([\"b\", \"a\"])",
            "values({ b = 1, a = 2 })",
            "zipmap([\"a\", \"b\"], [1, 2])",
            "max([1, 5, 3]...)",
            "slice([1], 1, 3)",
            "range(0, 1, -1)",
        ],
        expect![[r#"
            chunklist([1, 2, 3], 2) → [[1,2],[3]]
            coalesce(null, "", "b") → ""
            coalescelist([], [1]) → [1]
            compact(["a", "", null]) → ["a"]
            concat([1], [2, 3], []) → [1,2,3]
            contains([1, 2], 2) → true
            distinct([2, 1, 2]) → [2,1]
            element([1, 2, 3], 4) → 2
            flatten([1, [2, [3, []]]]) → [1,2,3]
            index(["a", "b"], "b") → 1
            keys({ b = 1, a = 2 }) → ["a","b"]
            length({ a = 1 }) → 1
            lookup({ a = 1 }, "b", 2) → 2
            merge({ a = 1, b = 1 }, { b = 2 }, null) → {"a":1,"b":2}
            range(3) → [0,1,2]
            range(1, 10, 4) → [1,5,9]
            range(3, 0) → [3,2,1]
            reverse([1, 2]) → [2,1]
            setintersection([1, 2, 3], [3, 2]) → [2,3]
            setproduct([1, 2], ["a", "b"]) → [[1,"a"],[1,"b"],[2,"a"],[2,"b"]]
            setunion([2, 1], [1]) → [1,2]
            slice([1, 2, 3], 1, 2) → [2]
            sort(["b", "a"]) → ["a","b"]
            values({ b = 1, a = 2 }) → [2,1]
            zipmap(["a", "b"], [1, 2]) → {"a":1,"b":2}
            max([1, 5, 3]...) → 5
            slice([1], 1, 3) → `slice`: 1 to 3 is no part of a list of 1 items
            range(0, 1, -1) → `range`: its steps never reach the limit
        "#]],
    );
}

#[test]
fn functions_of_numbers_and_encodings() {
    check(
        &[
            "abs(-1.5)",
            "ceil(1.2)",
            "floor(-1.2)",
            "log(8, 2)",
            "max(1, 3, 2)",
            "min(1, 3, 2)",
            "parseint(\"ff\", 16)",
            "pow(2, 10)",
            "signum(-3)",
            r#"base64decode(base64encode("hä"))"#,
            r#"base64decode("aG\r\nk=\n")"#,
            r#"csvdecode("a,b\n1,2\n")"#,
            r#"jsondecode("{\"a\": [1, 2.5, null]}")"#,
            r#"jsonencode({ b = [true], a = "\"" })"#,
            r#"urlencode("a b&c/d")"#,
            r#"yamlencode({ b = [true, "x: y"], a = "1" })"#,
            r#"yamldecode("a: [1, 2.5, yes, true, null]\nb: {c: 0x10, d: '1'}")"#,
            r#"yamldecode("a: &x 1\nb: *x")"#,
            r#"md5("")"#,
            r#"sha1("abc")"#,
            r#"sha256("abc")"#,
            r#"uuidv5("dns", "example.org")"#,
            r#"formatdate("EEE, DD MMM YYYY hh:mm:ss ZZZ", "2026-01-31T23:05:09Z")"#,
            r#"formatdate("YYYY-MM-DD'T'h:mm AA Z", "2026-01-31T23:05:09+02:00")"#,
            r#"formatdate("h 'o''clock' ''D'' ZZZ ZZZZ", "2026-01-31T23:05:09+02:00")"#,
            r#"formatdate("h 'o''clock", "2026-01-31T23:05:09Z")"#,
            r#"timeadd("2026-01-31T23:05:09Z", "1h30m")"#,
            r#"timeadd("2026-01-31T23:05:09Z", "-24h")"#,
            r#"cidrhost("10.1.0.0/16", 260)"#,
            r#"cidrhost("fd00::/64", -1)"#,
            r#"cidrnetmask("10.0.0.0/12")"#,
            r#"cidrsubnet("10.0.0.0/8", 8, 5)"#,
            r#"cidrsubnets("10.0.0.0/8", 1, 8, 2)"#,
            r#"cidrsubnet("10.0.0.0/30", 8, 0)"#,
            r#"cidrsubnet("10.0.0.0/8", 4294967295, 0)"#,
            r#"parseint("zz", 10)"#,
            r#"timeadd("today", "1h")"#,
            r#"try({}.a, "fallback")"#,
            r#"can({}.a)"#,
            r#"convert("5", number)"#,
            r#"convert(["9007199254740993", 9007199254740993, "1.5"], list(number))"#,
            r#"convert([2, 1, 1], set(string))"#,
        ],
        expect![[r#"
            abs(-1.5) → 1.5
            ceil(1.2) → 2
            floor(-1.2) → -2
            log(8, 2) → 3
            max(1, 3, 2) → 3
            min(1, 3, 2) → 1
            parseint("ff", 16) → 255
            pow(2, 10) → 1024
            signum(-3) → -1
            base64decode(base64encode("hä")) → "hä"
            base64decode("aG\r\nk=\n") → "hi"
            csvdecode("a,b\n1,2\n") → [{"a":"1","b":"2"}]
            jsondecode("{\"a\": [1, 2.5, null]}") → {"a":[1,2.5,null]}
            jsonencode({ b = [true], a = "\"" }) → "{\"a\":\"\\\"\",\"b\":[true]}"
            urlencode("a b&c/d") → "a+b%26c%2Fd"
            yamlencode({ b = [true, "x: y"], a = "1" }) → "a: \"1\"\nb:\n- true\n- \"x: y\"\n"
            yamldecode("a: [1, 2.5, yes, true, null]\nb: {c: 0x10, d: '1'}") → {"a":[1,2.5,"yes",true,null],"b":{"c":16,"d":"1"}}
            yamldecode("a: &x 1\nb: *x") → `yamldecode`: the text has anchors: write out what they stand for
            md5("") → "d41d8cd98f00b204e9800998ecf8427e"
            sha1("abc") → "a9993e364706816aba3e25717850c26c9cd0d89d"
            sha256("abc") → "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
            uuidv5("dns", "example.org") → "aad03681-8b63-5304-89e0-8ca8f49461b5"
            formatdate("EEE, DD MMM YYYY hh:mm:ss ZZZ", "2026-01-31T23:05:09Z") → "Sat, 31 Jan 2026 23:05:09 UTC"
            formatdate("YYYY-MM-DD'T'h:mm AA Z", "2026-01-31T23:05:09+02:00") → "2026-01-31T23:05 PM +02:00"
            formatdate("h 'o''clock' ''D'' ZZZ ZZZZ", "2026-01-31T23:05:09+02:00") → "23 o'clock '31' +0200 +0200"
            formatdate("h 'o''clock", "2026-01-31T23:05:09Z") → `formatdate`: a quote is not closed
            timeadd("2026-01-31T23:05:09Z", "1h30m") → "2026-02-01T00:35:09Z"
            timeadd("2026-01-31T23:05:09Z", "-24h") → "2026-01-30T23:05:09Z"
            cidrhost("10.1.0.0/16", 260) → "10.1.1.4"
            cidrhost("fd00::/64", -1) → "fd00::ffff:ffff:ffff:ffff"
            cidrnetmask("10.0.0.0/12") → "255.240.0.0"
            cidrsubnet("10.0.0.0/8", 8, 5) → "10.5.0.0/16"
            cidrsubnets("10.0.0.0/8", 1, 8, 2) → ["10.0.0.0/9","10.128.0.0/16","10.192.0.0/10"]
            cidrsubnet("10.0.0.0/30", 8, 0) → `cidrsubnet`: the block has not that many bits left
            cidrsubnet("10.0.0.0/8", 4294967295, 0) → `cidrsubnet`: the block has not that many bits left
            parseint("zz", 10) → `parseint`: "zz" is not a whole number of base 10
            timeadd("today", "1h") → `timeadd`: "today" is not a time, as "2026-01-31T12:00:00Z"
            try({}.a, "fallback") → "fallback"
            can({}.a) → false
            convert("5", number) → 5
            convert(["9007199254740993", 9007199254740993, "1.5"], list(number)) → [9007199254740993,9007199254740993,1.5]
            convert([2, 1, 1], set(string)) → ["1","2"]
        "#]],
    );
}
