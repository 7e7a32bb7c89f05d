// The types of the client: its classes, and the data that it sends and receives.
export * from "./argstream.js";
export * from "./types.js";
