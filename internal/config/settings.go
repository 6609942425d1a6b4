package config

import (
	"cmp"
	"slices"
	"strings"
)

// settings lists what is effective, with where it came from.
func (l *loader) settings(m *layer, c *Config) []Setting {
	var out []Setting
	for path, value := range m.values {
		text, isText := value.(string)
		if !isText {
			text = "[" + strings.Join(m.textsOf(path), ", ") + "]"
		}
		if place := l.schema.at(path); place == nil || place.secret {
			text = MaskURL(text)
		}
		out = append(out, Setting{Path: dotted(path), Value: text, Origin: m.origins[path].label()})
	}
	operator := Setting{Path: "operator", Origin: origin{}.label()}
	if c.Operator != "" {
		operator.Value, operator.Origin = c.Operator, "environment "+envOperator
	}
	out = append(out, operator)
	slices.SortFunc(out, func(a, b Setting) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
