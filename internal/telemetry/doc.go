// Package telemetry tells a monitoring system what a run does: by HTTP while a worker
// lives, and in a file for node_exporter.
//
// Invariants: no metric has a label whose values come from outside. Destinations,
// tenants, event types and status codes are as many as producers and receivers make
// them, and each value of a label is a series that the monitoring system keeps; what
// there is to know of each is in the tables, where one may ask for it. For the same
// reason every series is there from the start, at 0. No payload, id, URL or secret
// appears.
//
// Not here: what is counted (the use cases), thresholds and alerts (deploy).
package telemetry
