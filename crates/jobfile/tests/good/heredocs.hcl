job "heredocs" {
  task "t" {
    driver = "custom"
    config {
      hole_at_margin = <<-END
          two
        ${NOMAD_TASK_NAME} at the margin
          two
      END
      hole_first = <<-END
        ${NOMAD_TASK_NAME}${NOMAD_GROUP_NAME}
            four

          two ${
            meta.over_lines
          } and on
        END
      unindented_hole = <<-END
${NOMAD_TASK_NAME}
  two
END
      not_stripped = <<END
  two
    END
      empty = <<-END
      END
    }
  }
}
