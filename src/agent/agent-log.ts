// Logs one sentence for people about an event in the agent.

export type AgentLog = (level: 'info' | 'warn' | 'error', sentence: string) => void;
