job "report" {
  periodic {
    enabled = "sometimes"
  }
  parameterized {
    payload       = "maybe"
    meta_required = ["a"]
    meta_optional = ["b", "a"]
  }
  task "make" {
    driver = "container"
  }
}
